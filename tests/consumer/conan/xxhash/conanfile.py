"""Stands for Conan's package of xxHash: the system's library, by the names of that package."""

from conan import ConanFile
from conan.tools.gnu import PkgConfig


class SystemXxHash(ConanFile):
    name = "xxhash"
    version = "0.8.1"
    package_type = "shared-library"

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "xxHash")
        info = self.cpp_info.components["libxxhash"]
        info.set_property("cmake_target_name", "xxHash::xxhash")
        PkgConfig(self, "libxxhash").fill_cpp_info(info)
