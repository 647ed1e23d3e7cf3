package webhook

// EncodeInstance gives tests an instance in any state.
var EncodeInstance = encodeInstance
