# Finds libzmq: its own CMake package if there is one (vcpkg, Conan, builds from source), else by
# header and library (Debian and Ubuntu ship only libzmq.pc).
#
# Defines ZeroMQ::libzmq.
find_package(ZeroMQ CONFIG QUIET)

if(NOT TARGET ZeroMQ::libzmq)
  add_library(ZeroMQ::libzmq INTERFACE IMPORTED)
  if(TARGET libzmq)
    target_link_libraries(ZeroMQ::libzmq INTERFACE libzmq)
    set(ZeroMQ_FOUND TRUE)
  elseif(TARGET libzmq-static)
    target_link_libraries(ZeroMQ::libzmq INTERFACE libzmq-static)
    set(ZeroMQ_FOUND TRUE)
  else()
    find_path(ZEROMQ_INCLUDE_DIR zmq.h)
    find_library(ZEROMQ_LIBRARY zmq)
    mark_as_advanced(ZEROMQ_INCLUDE_DIR ZEROMQ_LIBRARY)
    include(FindPackageHandleStandardArgs)
    find_package_handle_standard_args(ZeroMQ REQUIRED_VARS ZEROMQ_LIBRARY ZEROMQ_INCLUDE_DIR)
    if(ZeroMQ_FOUND)
      target_link_libraries(ZeroMQ::libzmq INTERFACE "${ZEROMQ_LIBRARY}")
      target_include_directories(ZeroMQ::libzmq INTERFACE "${ZEROMQ_INCLUDE_DIR}")
    endif()
  endif()
endif()
