# Installs the libraries, their headers, a CMake package and pkg-config files. All of them find each
# other by relative paths, so that the installed tree may be moved.
#
#   find_package(prefixrouter)                     prefixrouter::prefixrouter, prefixrouter::capi
#   find_package(prefixrouter COMPONENTS capi)     the C library alone; needs nothing else
#   find_package(prefixrouter COMPONENTS simulator)   prefixrouter::simulator
#   find_package(prefixrouter COMPONENTS zmq)      prefixrouter::zmq
#   pkg-config prefixrouter, prefixrouter-c, prefixrouter-zmq
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/prefixrouter")
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# A component of the CMake package: one target with an export file of its own, so that a consumer of
# one library need not have what the other is linked with.
function(prefix_router_install_target component target)
  install(TARGETS ${target} EXPORT prefixrouter-${component}
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(EXPORT prefixrouter-${component} NAMESPACE prefixrouter::
    FILE prefixrouter-${component}.cmake DESTINATION "${package_dir}")
endfunction()

# name.pc for a target. A static library brings what it needs along, because without that no program
# links; a shared one has it inside. Further arguments: the packages that are needed instead.
function(prefix_router_install_pkgconfig name target description)
  file(RELATIVE_PATH prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}/.")
  cmake_path(APPEND includedir "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
  cmake_path(APPEND libdir "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")
  get_target_property(type ${target} TYPE)
  get_target_property(library ${target} OUTPUT_NAME)
  set(requires ${ARGN})
  set(libraries "-l${library}")
  if(type STREQUAL "STATIC_LIBRARY")
    if(NOT requires)
      set(requires ${PREFIX_ROUTER_CORE_LIBRARIES})
      list(FILTER requires INCLUDE REGEX "^absl::")
      list(TRANSFORM requires REPLACE "::" "_")
      list(APPEND requires libxxhash)
    endif()
    string(APPEND libraries " -pthread -l$<IF:$<PLATFORM_ID:Darwin>,c++,stdc++> -lm")
  endif()
  list(JOIN requires " " requires)
  file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/${name}.pc" CONTENT "\
prefix=\${pcfiledir}/${prefix}
includedir=${includedir}
libdir=${libdir}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Cflags: -I\${includedir}
Libs: -L\${libdir} ${libraries}
")
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${name}.pc" DESTINATION "${pkgconfig_dir}")
endfunction()

set_target_properties(prefixrouter PROPERTIES OUTPUT_NAME prefixrouter)
prefix_router_install_target(cpp prefixrouter)
prefix_router_install_pkgconfig(prefixrouter prefixrouter "${PROJECT_DESCRIPTION}")
set(not_installed "")
if(TARGET prefixrouter_simulator)
  set_target_properties(prefixrouter_simulator PROPERTIES EXPORT_NAME simulator)
  prefix_router_install_target(simulator prefixrouter_simulator)
else()
  foreach(header simulator trace workload)
    list(APPEND not_installed PATTERN ${header}.h EXCLUDE)
  endforeach()
endif()
if(TARGET prefixrouter_zmq)
  set_target_properties(prefixrouter_zmq PROPERTIES OUTPUT_NAME prefixrouter_zmq EXPORT_NAME zmq)
  prefix_router_install_target(zmq prefixrouter_zmq)
  # It is nothing but calls of the C++ library and libzmq, which have files of their own.
  prefix_router_install_pkgconfig(prefixrouter-zmq prefixrouter_zmq
    "${PROJECT_DESCRIPTION}, KV events from ZeroMQ" prefixrouter libzmq)
else()
  list(APPEND not_installed PATTERN zmq_subscriber.h EXCLUDE)
endif()
install(DIRECTORY include/prefixrouter DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" ${not_installed})

if(TARGET prefixrouter_capi)
  prefix_router_install_target(capi prefixrouter_capi)
  prefix_router_install_pkgconfig(prefixrouter-c prefixrouter_capi "${PROJECT_DESCRIPTION}, C interface")
  install(FILES capi/prefix_router.h capi/prefix_router_stats.h capi/prefix_router_types.h
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
endif()

configure_package_config_file(cmake/prefixrouterConfig.cmake.in prefixrouterConfig.cmake
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the C++ interface.
write_basic_package_version_file(prefixrouterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/prefixrouterConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/prefixrouterConfigVersion.cmake"
              cmake/FindxxHash.cmake
              cmake/FindZeroMQ.cmake
        DESTINATION "${package_dir}")
