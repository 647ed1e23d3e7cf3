package webhooks

// ReadBody reads the body of an answer.
var ReadBody = readBody
