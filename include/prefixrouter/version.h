// The version of PrefixRouter. This file is the one place that holds it: CMake, the packages and
// the tools read it from here.
#ifndef PREFIXROUTER_VERSION_H_
#define PREFIXROUTER_VERSION_H_

#define PREFIX_ROUTER_VERSION_MAJOR 0
#define PREFIX_ROUTER_VERSION_MINOR 1
#define PREFIX_ROUTER_VERSION_PATCH 0
#define PREFIX_ROUTER_VERSION_STRING "0.1.0"

#endif  // PREFIXROUTER_VERSION_H_
