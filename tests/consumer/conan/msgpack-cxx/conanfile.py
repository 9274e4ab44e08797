"""Stands for Conan's package of msgpack-cxx: the system's headers, by the names of that package."""

from conan import ConanFile
from conan.tools.files import copy


class SystemMsgpackCxx(ConanFile):
    name = "msgpack-cxx"
    version = "4.1.3"
    package_type = "header-library"
    options = {"use_boost": [True, False]}
    default_options = {"use_boost": True}

    def package(self):
        for pattern in ("msgpack.hpp", "msgpack/*"):
            copy(self, pattern, "/usr/include", f"{self.package_folder}/include")

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "msgpack")
        self.cpp_info.set_property("cmake_target_name", "msgpackc-cxx")
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        if not self.options.use_boost:
            self.cpp_info.defines.append("MSGPACK_NO_BOOST")
