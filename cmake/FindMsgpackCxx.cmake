# Finds the headers of msgpack-cxx, 3.1 or newer. Its own CMake package has had several names, and
# Debian's asks for Boost, which the headers need not.
#
# Defines MSGPACK_CXX_INCLUDE_DIR.
find_path(MSGPACK_CXX_INCLUDE_DIR msgpack.hpp)
mark_as_advanced(MSGPACK_CXX_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MsgpackCxx REQUIRED_VARS MSGPACK_CXX_INCLUDE_DIR)
