# Runs packaging/vcpkg/portfile.cmake, with functions that stand for vcpkg's: what the port asks for
# is done, for one configuration. It stops when the port passes an option that the project does not
# have, or names a folder or a file that is not there.
#
# cmake -DPORT_DIR=... -DLINKAGE=static|dynamic -DPACKAGE_DIR=... -DBUILD_DIR=... -P run_portfile.cmake
cmake_minimum_required(VERSION 3.22)

set(PORT prefixrouter)
set(CURRENT_PORT_DIR "${PORT_DIR}")
set(CURRENT_PACKAGES_DIR "${PACKAGE_DIR}")
set(VCPKG_LIBRARY_LINKAGE "${LINKAGE}")

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "dynamic" shared)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${arg_SOURCE_PATH}" -B "${BUILD_DIR}" -G Ninja
      -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=${shared}
      "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" ${arg_OPTIONS}
    COMMAND_ERROR_IS_FATAL ANY ERROR_VARIABLE warnings ECHO_ERROR_VARIABLE)
  if(warnings MATCHES "not used by the project")
    message(FATAL_ERROR "the port passes options that the project does not have")
  endif()
endfunction()

function(vcpkg_cmake_install)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BUILD_DIR}" --target install
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH;PACKAGE_NAME" "")
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/prefixrouterConfig.cmake")
    message(FATAL_ERROR "no CMake package in ${arg_CONFIG_PATH}")
  endif()
endfunction()

function(vcpkg_fixup_pkgconfig)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/prefixrouter.pc")
    message(FATAL_ERROR "no pkg-config files")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  file(INSTALL ${arg_FILE_LIST} DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}" RENAME copyright)
endfunction()

include("${PORT_DIR}/portfile.cmake")
