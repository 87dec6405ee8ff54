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

/// An image cut to size, and facts about its file.
struct StoredImage {
  KeptImage kept;
  bool is_unlike = false;    ///< the image does not look like the subject of its dataset
  bool had_16_bits = false;  ///< its file has 16 bits per channel
};

/// A disk cache of cut images that do not fit in memory, shared by all of a user's runs. An entry's
/// key depends on the contents of the image file and on how it is processed. Entries have
/// checksums; a damaged entry is removed and treated as missing. The folder's size is limited to
/// `most_bytes`, and some disk space is always left free. To make room, entries that have not been
/// used since this object was created are removed, oldest first; if there are none, the new image
/// is not stored. After a failed write, nothing more is written, and the log states the cause.
/// Thread-safe.
class ImageStore {
 public:
  /// `how` describes all processing that turns a file's bytes into pixels. `storage` is borrowed.
  ImageStore(std::int64_t most_bytes, std::string how, runner::Storage& storage = runner::disk());

  /// Uses the "pictures" folder in `cache`. Before this call, and if `cache` is empty, nothing is
  /// stored. `build` identifies this build, since other builds may cut images differently. The
  /// folder is not created until the first entry is stored.
  void open(const std::filesystem::path& cache, const std::string& build);

  /// Returns the key of the image in `file`, cropped to `box`, if the file has been read before and
  /// its size, timestamps and inode are unchanged; nullopt if it must be read.
  std::optional<std::string> known_key(const std::filesystem::path& file,
                                       const std::optional<Box>& box) const;
  /// Returns the key of the image in `file`, cropped to `box`, given the file's bytes.
  std::string key(const std::filesystem::path& file, const std::optional<Box>& box, Bytes bytes);

  /// Returns the stored image; nullopt if it is missing or damaged.
  std::optional<StoredImage> find(const std::string& key);
  void put(const std::string& key, const StoredImage& picture);

  std::filesystem::path folder() const;
  std::int64_t most_bytes() const { return most_bytes_; }

 private:
  /// Identifies the version of a file.
  struct Version {
    std::uint64_t size = 0, inode = 0;
    std::int64_t modified = 0, changed = 0;  // in nanoseconds
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
  std::vector<Entry> old_;  // entries that may be removed, starting from the back
  std::int64_t bytes_ = 0;  // of all entries
  std::int64_t written_ = 0;
};

}  // namespace stages
