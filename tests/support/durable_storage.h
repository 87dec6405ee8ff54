#pragma once

#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/forwarding_storage.h"

/// The disk, which records every file or folder that gets its name before its contents have been
/// flushed: a power cut would leave it incomplete. Files that are written without a Storage count
/// as not flushed.
class DurableStorage : public ForwardingStorage {
 public:
  int create(const std::filesystem::path& path) override {
    const int file = ForwardingStorage::create(path);
    if (file < 0) return file;
    flushed_.erase(place_of(file));
    flushed_.erase(std::filesystem::path(place_of(file)).parent_path().string());
    return file;
  }
  ssize_t write(int file, const char* data, std::size_t size) override {
    flushed_.erase(place_of(file));
    return ForwardingStorage::write(file, data, size);
  }
  int sync(int file) override {
    const int result = ForwardingStorage::sync(file);
    if (result == 0) flushed_.insert(place_of(file));
    return result;
  }
  int make_folder(const std::filesystem::path& path) override {
    const int result = ForwardingStorage::make_folder(path);
    if (result == 0) flushed_.erase(std::filesystem::canonical(path).string());
    return result;
  }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    namespace fs = std::filesystem;
    if (!fs::is_symlink(from)) {
      ++renamed;
      const auto check = [&](const fs::path& path) {
        if (!fs::is_symlink(path) && !flushed_.contains(fs::canonical(path).string()))
          early.push_back(path.string());
      };
      check(from);
      if (fs::is_directory(from)) {
        for (const auto& entry : fs::recursive_directory_iterator(from)) check(entry.path());
      }
    }
    const std::string before = fs::weakly_canonical(fs::absolute(from)).string();
    const int result = ForwardingStorage::rename(from, to);
    if (result != 0) return result;
    follow(before, fs::weakly_canonical(fs::absolute(to)).string());
    unnamed_ = fs::canonical(fs::absolute(to).parent_path()).string();
    flushed_.erase(unnamed_);
    return 0;
  }

  /// True if the latest new name is itself on the disk.
  bool has_flushed_the_latest_name() const { return flushed_.contains(unnamed_); }

  int renamed = 0;
  std::vector<std::string> early;

 private:
  static std::string place_of(int file) {
    return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)).string();
  }

  /// Moves the flushed paths below `from` to below `to`.
  void follow(const std::string& from, const std::string& to) {
    std::set<std::string> moved;
    for (const std::string& path : flushed_) {
      const bool is_inside = path == from || path.starts_with(from + "/");
      moved.insert(is_inside ? to + path.substr(from.size()) : path);
    }
    flushed_ = std::move(moved);
  }

  std::set<std::string> flushed_;
  std::string unnamed_;  // the folder of the latest new name
};
