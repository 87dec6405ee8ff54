#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

/// A folder that the tests of a suite start from. The first test makes its contents and calls
/// keep(); each later test of the same process gets these contents back, at the same path. A test
/// that calls keep() again adds to them.
///
///   void SetUp() override {
///     if (folder_.is_made()) return;
///     ASSERT_EQ(retort("data make image_folder --out photos", folder_.path()).exit, 0);
///     folder_.keep();
///   }
///   SharedFolder folder_;
class SharedFolder {
 public:
  SharedFolder() : suite_(of_suite()) {
    std::filesystem::remove_all(path());
    std::filesystem::create_directory(path());
    if (is_made()) copy(kept(), path());
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  bool is_made() const { return std::filesystem::exists(kept()); }
  void keep() const { copy(path(), kept()); }

  std::filesystem::path path() const { return suite_ / "now"; }
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
  std::string read(const std::string& name) const { return suite_.read("now/" + name); }
  /// Writes a file below the folder, making the folders on the way.
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    return suite_.write("now/" + name, text);
  }

 private:
  static TemporaryFolder& of_suite() {
    static std::map<std::string, std::unique_ptr<TemporaryFolder>> folders;
    auto& folder = folders[testing::UnitTest::GetInstance()->current_test_suite()->name()];
    if (!folder) folder = std::make_unique<TemporaryFolder>();
    return *folder;
  }
  std::filesystem::path kept() const { return suite_ / "kept"; }
  /// Keeps the times of the files, which runs record.
  static void copy(const std::filesystem::path& from, const std::filesystem::path& to) {
    const std::string command =
        "mkdir -p '" + to.string() + "' && cp -a '" + from.string() + "/.' '" + to.string() + "'";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  TemporaryFolder& suite_;
};
