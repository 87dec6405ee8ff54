#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace runner {

/// The files that recipes are composed from. An interface, so that composition is tested without a disk.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// The whole file; nullopt when there is none or it is larger than `limit` bytes.
  virtual std::optional<std::string> read(const std::filesystem::path& path, std::size_t limit) const = 0;
  virtual bool is_file(const std::filesystem::path& path) const = 0;
  virtual bool is_folder(const std::filesystem::path& path) const = 0;
  /// Names of the entries of a folder, sorted; empty when there is none.
  virtual std::vector<std::string> list(const std::filesystem::path& folder) const = 0;
};

/// The disk.
const FileSystem& real_file_system();

}  // namespace runner
