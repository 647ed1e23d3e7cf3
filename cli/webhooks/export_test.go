package webhooks

// ReadBody reads the body of an answer.
var ReadBody = readBody

// Reason gives tests the words for errors of the system.
var Reason = reason
