"""Stands for Conan's package of nlohmann-json: the system's headers, by the names of that package."""

from conan import ConanFile
from conan.tools.files import copy


class SystemNlohmannJson(ConanFile):
    name = "nlohmann_json"
    version = "3.11.2"
    package_type = "header-library"

    def package(self):
        copy(self, "nlohmann/*", "/usr/include", f"{self.package_folder}/include")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "nlohmann_json")
        self.cpp_info.set_property("cmake_target_name", "nlohmann_json::nlohmann_json")
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
