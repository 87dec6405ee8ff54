#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "tests/support/forwarding_storage.h"

/// The disk, which knows at every moment what a power cut would leave of `root`: bytes that were
/// flushed, under names in folders that were flushed afterward. Files that exist at the beginning
/// survive; files in a folder that was created without this storage do not.
///
///   PowerCutStorage storage(folder.path());
///   storage.after_each_call = [&] { const TemporaryFolder left; storage.leave(left.path()); … };
class PowerCutStorage : public ForwardingStorage {
 public:
  /// How much unflushed data has reached the disk anyway.
  enum class Luck { kNone, kNames };

  explicit PowerCutStorage(std::filesystem::path root)
      : root_(std::move(root)), top_(scanned(root_)) {}

  /// Called after each call that changes something.
  std::function<void()> after_each_call;

  /// Writes what would be left to `to`, an empty folder.
  void leave(const std::filesystem::path& to, Luck luck = Luck::kNone) const {
    put(*top_, to, luck);
  }

  int create(const std::filesystem::path& path) override {
    const int file = ForwardingStorage::create(path);
    if (file >= 0) name(path, std::make_shared<Entry>());
    return changed(file);
  }
  ssize_t write(int file, const char* data, std::size_t size) override {
    const ssize_t written = ForwardingStorage::write(file, data, size);
    changed(0);
    return written;
  }
  int sync(int file) override {
    const int result = ForwardingStorage::sync(file);
    std::error_code error;
    const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), error);
    if (const auto entry = find(path); entry && result == 0) {
      if (entry->is_folder) entry->flushed_names = entry->names;
      else entry->flushed = text_of(path);
    }
    return changed(result);
  }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    const auto entry = find(from);
    const int result = ForwardingStorage::rename(from, to);
    if (result == 0 && entry) {
      forget(from);
      name(to, entry);
    }
    return changed(result);
  }
  int make_folder(const std::filesystem::path& path) override {
    const int result = ForwardingStorage::make_folder(path);
    if (result == 0) name(path, folder());
    return changed(result);
  }
  int remove(const std::filesystem::path& path) override {
    const int result = ForwardingStorage::remove(path);
    if (result == 0) forget(path);
    return changed(result);
  }

 private:
  struct Entry {
    bool is_folder = false;
    std::string flushed;
    std::map<std::string, std::shared_ptr<Entry>> names, flushed_names;
  };
  using EntryPtr = std::shared_ptr<Entry>;

  static EntryPtr folder() {
    auto entry = std::make_shared<Entry>();
    entry->is_folder = true;
    return entry;
  }
  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static EntryPtr scanned(const std::filesystem::path& path) {
    if (!std::filesystem::is_directory(path)) {
      auto entry = std::make_shared<Entry>();
      entry->flushed = text_of(path);
      return entry;
    }
    const EntryPtr entry = folder();
    for (const auto& item : std::filesystem::directory_iterator(path))
      entry->names[item.path().filename()] = scanned(item.path());
    entry->flushed_names = entry->names;
    return entry;
  }

  /// Null if it is unknown.
  EntryPtr find(const std::filesystem::path& path) const {
    EntryPtr entry = top_;
    for (const auto& part : path.lexically_normal().lexically_relative(root_)) {
      if (part == ".") continue;
      const auto found = entry->names.find(part);
      if (found == entry->names.end()) return nullptr;
      entry = found->second;
    }
    return entry;
  }
  void name(const std::filesystem::path& path, const EntryPtr& entry) const {
    if (const auto above = find(path.parent_path())) above->names[path.filename()] = entry;
  }
  void forget(const std::filesystem::path& path) const {
    if (const auto above = find(path.parent_path())) above->names.erase(path.filename());
  }
  int changed(int result) const {
    const int error = errno;
    if (after_each_call) after_each_call();
    errno = error;
    return result;
  }
  static void put(const Entry& entry, const std::filesystem::path& to, Luck luck) {
    if (!entry.is_folder) {
      std::ofstream(to, std::ios::binary) << entry.flushed;
      return;
    }
    std::filesystem::create_directories(to);
    for (const auto& [name, below] : luck == Luck::kNone ? entry.flushed_names : entry.names)
      put(*below, to / name, luck);
  }

  const std::filesystem::path root_;
  const EntryPtr top_;
};
