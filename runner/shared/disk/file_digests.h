#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <sys/stat.h>

namespace runner {

/// Bytes of a set of files up to which their contents are read to know them again: two seconds
/// where they come from memory. A larger set is known by how its files are (FileState).
inline constexpr std::uintmax_t kLargestContents = std::uintmax_t{4} << 30;

/// How a file is, as far as the system tells without reading it. The time of change cannot be set,
/// so a file of the same state has the same bytes, whatever was done to its time of modification.
struct FileState {
  std::uintmax_t size = 0;
  std::int64_t modified = 0, changed = 0;  ///< nanoseconds since 1970
  std::uint64_t inode = 0;
  bool operator==(const FileState&) const = default;
};

/// nullopt where there is no regular file of that name, at the end of links.
std::optional<FileState> file_state(const std::filesystem::path& file);
/// It in a word, without blanks.
std::string to_text(const FileState& state);

/// The SHA-256 of files, of which each is read once: they are kept in a folder of this user, by
/// path and FileState. Any number of programs may use it at once; what is damaged in it is not
/// used, and beyond a million files the oldest are forgotten. A file that has just changed is not
/// kept, since it may change again without another time.
class FileDigests {
 public:
  /// Nanoseconds since 1970.
  using Clock = std::function<std::int64_t()>;

  /// `folder` need not exist; empty: nothing is kept.
  explicit FileDigests(std::filesystem::path folder = standard_folder(), Clock now = {});
  FileDigests(const FileDigests&) = delete;
  FileDigests& operator=(const FileDigests&) = delete;
  /// Keeps what is new, as far as that works.
  ~FileDigests();

  /// In hexadecimal; nullopt where it is no regular file or cannot be read.
  std::optional<std::string> of(const std::filesystem::path& file);
  /// How many were read.
  std::int64_t count_read() const { return read_; }

  /// digests/ in the cache folder (cache_folder.h); empty where there is none.
  static std::filesystem::path standard_folder();

 private:
  using Key = std::array<char, 16>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Shard {
    std::unordered_map<Key, std::string, KeyHash> known;  // digests of 32 bytes
    std::string fresh;                                    // records that are not in its file yet
  };
  static Key key_of(const std::filesystem::path& file, const FileState& state);
  std::filesystem::path shard_file(std::uint8_t number) const;
  std::string records_of(std::uint8_t number) const;
  Shard& shard(const Key& key);
  void keep(std::uint8_t number, const std::string& fresh) const;

  const std::filesystem::path folder_;
  const Clock now_;
  std::map<std::uint8_t, Shard> shards_;  // as far as they were asked for
  std::int64_t read_ = 0;
};

/// A SHA-256 of the names and contents of the file at `path`, or of all files in the folder there
/// but hidden ones; empty where there is nothing.
std::string digest_below(const std::filesystem::path& path);

/// The files that recipes are composed from. An interface, so that composition is tested without a
/// disk.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// The whole file; nullopt when there is none or it is larger than `limit` bytes.
  virtual std::optional<std::string> read(const std::filesystem::path& path,
                                          std::size_t limit) const = 0;
  virtual bool is_file(const std::filesystem::path& path) const = 0;
  virtual bool is_folder(const std::filesystem::path& path) const = 0;
  /// Names of the entries of a folder, sorted; empty when there is none.
  virtual std::vector<std::string> list(const std::filesystem::path& folder) const = 0;
};

/// The disk.
const FileSystem& real_file_system();

/// Where this user's caches are: $RETORT_CACHE, else retort/ in $XDG_CACHE_HOME, else .cache/retort
/// in $HOME; empty where none of them is set to a whole path.
std::filesystem::path cache_folder();

}  // namespace runner
