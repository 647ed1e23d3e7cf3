package main

// What slows guessing down.
var throttleMutants = []mutant{
	{
		name: "throttle", breaks: "RFC 6749 §4.3: failures make the next attempt wait",
		under: "handlers/throttle", old: "wait == 0 && pending < pendingMax", new: "pending < pendingMax",
		in: "handlers", tests: []string{"TestThrottleOfAUser"},
	},
	{
		name: "device_cookie_user", breaks: "a device cookie is valid only for its user",
		under: "handlers", old: "user.Subject() != d.User || ", new: "",
		tests: []string{"TestThrottleAndTheOwner"},
	},
}
