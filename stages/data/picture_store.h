#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/disk/storage.h"
#include "stages/data/image.h"

namespace stages {

/// A picture as it was cut to size, and what its decoder saw.
struct StoredPicture {
  KeptImage kept;
  bool is_unlike = false;  ///< it did not look like what the data is to show
};

/// Pictures cut to size, in a folder of files that all runs of a user share, for those that memory
/// has no room for. An entry is known by what was in the picture's file and what was done to it,
/// and holds a checksum: one that a crash or a disk has damaged is removed, as if it had never
/// been. The folder holds at most `most_bytes`, and some of its disk stays free: for a new entry
/// those go that were not used since this was made, the oldest first, and without any the new one
/// is not kept. Once nothing can be written there, nothing more is tried, and the log says why.
/// Thread-safe.
class PictureStore {
 public:
  /// `how`: all that turns a file's bytes into pixels, by these programs. `storage` is borrowed.
  PictureStore(std::int64_t most_bytes, std::string how, runner::Storage& storage = runner::disk());

  /// Takes the folder "pictures" in `cache`; until then, and where that is empty, nothing is kept.
  /// `build`: of these programs, which may cut in another way than others. Nothing is made before
  /// the first entry.
  void open(const std::filesystem::path& cache, const std::string& build);

  /// The key of a picture in `file`, of which `box` is seen, where the file has been read and is
  /// what it was by size, times and inode; nullopt where it is to be read.
  std::optional<std::string> known_key(const std::filesystem::path& file,
                                       const std::optional<Box>& box) const;
  /// The same once it is read.
  std::string key(const std::filesystem::path& file, const std::optional<Box>& box, Bytes bytes);

  /// nullopt where it is not there, or damaged.
  std::optional<StoredPicture> find(const std::string& key);
  void put(const std::string& key, const StoredPicture& picture);

  std::filesystem::path folder() const;
  std::int64_t most_bytes() const { return most_bytes_; }

 private:
  /// By which a file is known again.
  struct Version {
    std::uint64_t size = 0, inode = 0;
    std::int64_t modified = 0, changed = 0;  // nanoseconds
    bool operator==(const Version&) const = default;
  };
  struct Known {
    Version version;
    std::string digest;
  };
  struct Entry {
    std::filesystem::file_time_type used;
    std::int64_t bytes = 0;
    std::filesystem::path path;
  };
  static std::optional<Version> version_of(const std::filesystem::path& file);
  std::string key_of(const std::string& digest, const std::optional<Box>& box) const;
  static std::filesystem::path path_in(const std::filesystem::path& folder, const std::string& key);
  void survey();
  bool make_room(std::int64_t bytes);

  const std::int64_t most_bytes_;
  const std::string how_;
  runner::Storage& storage_;
  const std::filesystem::file_time_type start_;
  mutable std::mutex mutex_;
  std::filesystem::path folder_;
  std::string build_;
  std::map<std::filesystem::path, Known> known_;  // files that have been read
  bool is_surveyed_ = false, has_failed_ = false;
  std::vector<Entry> old_;  // that may go, the last one first
  std::int64_t bytes_ = 0;  // of all entries
  std::int64_t written_ = 0;
};

}  // namespace stages
