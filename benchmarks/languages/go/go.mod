module example.com/benchmark

go 1.19

require example.com/gateway v0.0.0

replace example.com/gateway => ../../../examples/go
