"""The Conan 2 recipe of PrefixRouter, for the source tree that it is in: `conan create .`.

CMake targets as in an installation: prefixrouter::prefixrouter (C++), prefixrouter::capi (C).
docs/packaging.md tells how to use it; packaging/conan/test_package tests what it makes.
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd, stdcpp_library
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0.9"


class PrefixRouterConan(ConanFile):
    name = "prefixrouter"
    description = "Prefix-aware request routing for LLM gateways"
    license = "Apache-2.0"
    topics = ("llm", "routing", "load-balancing", "kv-cache")

    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}  # both libraries
    default_options = {"shared": False, "msgpack-cxx/*:use_boost": False}

    exports_sources = ("CMakeLists.txt", "LICENSE", "capi/*", "!capi/abi/*", "cmake/*", "include/*",
                       "lib/*")
    test_package_folder = "packaging/conan/test_package"

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "include", "prefixrouter", "version.h"))
        self.version = re.search(r'PREFIX_ROUTER_VERSION_STRING "(.*)"', header).group(1)

    def validate(self):
        check_min_cppstd(self, 17)  # the public headers; the library itself is built as C++20

    def requirements(self):
        # Behind the public headers: consumers link them, and do not see them.
        self.requires("abseil/[>=20220623.0]")
        self.requires("xxhash/[>=0.8.1 <0.9]")
        # Headers that are compiled in.
        self.requires("msgpack-cxx/[>=4.1 <8]", visible=False)
        self.requires("nlohmann_json/[>=3.6 <4]", visible=False)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["PREFIX_ROUTER_CAPI_SHARED"] = bool(self.options.shared)
        toolchain.cache_variables["PREFIX_ROUTER_BUILD_TESTS"] = False
        toolchain.cache_variables["PREFIX_ROUTER_BUILD_BENCHMARKS"] = False
        toolchain.cache_variables["PREFIX_ROUTER_BUILD_SIMULATOR"] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # Conan's generators write these for the packages that are really used.
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "prefixrouter")
        for component, library, target, pkg_config in (
                ("cpp", "prefixrouter", "prefixrouter::prefixrouter", "prefixrouter"),
                ("capi", "prefixrouter_c", "prefixrouter::capi", "prefixrouter-c")):
            info = self.cpp_info.components[component]
            info.set_property("cmake_target_name", target)
            info.set_property("pkg_config_name", pkg_config)
            info.libs = [library]
            info.requires = ["abseil::absl_flat_hash_map", "abseil::absl_hash",
                             "abseil::absl_inlined_vector", "abseil::absl_int128",
                             "abseil::absl_strings", "xxhash::libxxhash"]
            if self.settings.os in ("Linux", "FreeBSD"):
                info.system_libs = ["m", "pthread"]
        # C programs are linked without the C++ library that a static one needs.
        if not self.options.shared and stdcpp_library(self):
            self.cpp_info.components["capi"].system_libs.append(stdcpp_library(self))
