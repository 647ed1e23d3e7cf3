module tollhouse/bench

go 1.26.0

require github.com/julienschmidt/httprouter v1.3.0
