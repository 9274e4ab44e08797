# Finds xxHash: its own CMake package if there is one (vcpkg, Conan, newer distributions), else by
# header and library (Debian and Ubuntu ship only libxxhash.pc).
#
# Defines xxHash::xxhash, and XXHASH_HAS_DISPATCH when the library was built with run-time choice of
# the instruction set (xxh_x86dispatch.h).
find_package(xxHash CONFIG QUIET)

find_path(XXHASH_INCLUDE_DIR xxhash.h)
find_library(XXHASH_LIBRARY xxhash)
mark_as_advanced(XXHASH_INCLUDE_DIR XXHASH_LIBRARY)

if(NOT TARGET xxHash::xxhash)
  include(FindPackageHandleStandardArgs)
  find_package_handle_standard_args(xxHash REQUIRED_VARS XXHASH_LIBRARY XXHASH_INCLUDE_DIR)
  if(xxHash_FOUND)
    add_library(xxHash::xxhash UNKNOWN IMPORTED)
    set_target_properties(xxHash::xxhash PROPERTIES
      IMPORTED_LOCATION "${XXHASH_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${XXHASH_INCLUDE_DIR}")
  endif()
endif()

if(TARGET xxHash::xxhash)
  set(xxHash_FOUND TRUE)  # also when the target is there from before, and the package is not
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES xxHash::xxhash)
  if(NOT CMAKE_TRY_COMPILE_CONFIGURATION)  # targets of Conan are empty in other configurations
    set(CMAKE_TRY_COMPILE_CONFIGURATION "${CMAKE_BUILD_TYPE}")
  endif()
  check_cxx_source_compiles("#include <xxhash.h>\n#include <xxh_x86dispatch.h>
    int main() { char s[200] = {}; return static_cast<int>(XXH3_64bits_withSecret_dispatch(s, 1, s, sizeof s)); }"
    XXHASH_HAS_DISPATCH)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
