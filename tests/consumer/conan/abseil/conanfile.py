"""Stands for Conan's package of Abseil: the system's libraries, by the names of that package."""

from conan import ConanFile
from conan.tools.gnu import PkgConfig


class SystemAbseil(ConanFile):
    name = "abseil"
    version = "20220623.0"
    package_type = "shared-library"

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "absl")
        for target in ("flat_hash_map", "hash", "inlined_vector", "int128", "strings"):
            info = self.cpp_info.components[f"absl_{target}"]
            info.set_property("cmake_target_name", f"absl::{target}")
            PkgConfig(self, f"absl_{target}").fill_cpp_info(info)
