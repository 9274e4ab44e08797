# Builds the source tree that this port is in. In a registry, where the port is alone, SOURCE_PATH
# comes from vcpkg_from_git or vcpkg_from_github instead.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../.." ABSOLUTE)

# The triplet's linkage is for both libraries.
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "dynamic" CAPI_SHARED)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -DPREFIX_ROUTER_CAPI_SHARED=${CAPI_SHARED}
        -DPREFIX_ROUTER_BUILD_TESTS=OFF
        -DPREFIX_ROUTER_BUILD_BENCHMARKS=OFF
        -DPREFIX_ROUTER_BUILD_SIMULATOR=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/prefixrouter)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
