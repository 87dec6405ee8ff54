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

/// Sets of files up to this many bytes are identified by their contents: reading that much from the
/// page cache takes two seconds. A larger set is identified by the FileState of its files.
inline constexpr std::uintmax_t kLargestContents = std::uintmax_t{4} << 30;

/// The state of a file, as reported by the system without reading the file. The change time (ctime)
/// cannot be set, so a file with the same state has the same bytes, even if its modification time
/// was changed.
struct FileState {
  std::uintmax_t size = 0;
  std::int64_t modified = 0, changed = 0;  ///< nanoseconds since 1970
  std::uint64_t inode = 0;
  bool operator==(const FileState&) const = default;
};

/// Returns the state of `file`, following links; nullopt if it is not a regular file.
std::optional<FileState> file_state(const std::filesystem::path& file);
/// Returns the state as one word, without spaces.
std::string to_text(const FileState& state);

/// SHA-256 digests of files. Each file is read only once: its digest is cached in one of this
/// user's folders, keyed by path and FileState. Any number of programs may use the cache at once.
/// Damaged entries are ignored, and with more than a million files, the oldest entries are dropped.
/// The digest of a file that has just changed is not cached, since the file may change again
/// without getting a new timestamp.
class FileDigests {
 public:
  /// Returns the current time in nanoseconds since 1970.
  using Clock = std::function<std::int64_t()>;

  /// `folder` need not exist. If the path is empty, nothing is cached.
  explicit FileDigests(std::filesystem::path folder = standard_folder(), Clock now = {});
  FileDigests(const FileDigests&) = delete;
  FileDigests& operator=(const FileDigests&) = delete;
  /// Saves new digests if possible.
  ~FileDigests();

  /// Returns the digest in hexadecimal; nullopt if `file` is not a regular file or cannot be read.
  std::optional<std::string> of(const std::filesystem::path& file);
  /// Returns the number of files read.
  std::int64_t count_read() const { return read_; }

  /// Returns digests/ in cache_folder(); empty if there is no cache folder.
  static std::filesystem::path standard_folder();

 private:
  using Key = std::array<char, 16>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Shard {
    std::unordered_map<Key, std::string, KeyHash> known;  // 32-byte digests
    std::string fresh;                                    // records not yet in its file
  };
  static Key key_of(const std::filesystem::path& file, const FileState& state);
  std::filesystem::path shard_file(std::uint8_t number) const;
  std::string records_of(std::uint8_t number) const;
  Shard& shard(const Key& key);
  void keep(std::uint8_t number, const std::string& fresh) const;

  const std::filesystem::path folder_;
  const Clock now_;
  std::map<std::uint8_t, Shard> shards_;  // only shards that were needed are loaded
  std::int64_t read_ = 0;
};

/// Returns the SHA-256 of the names and contents of the file at `path` or, if that is a folder, of
/// all files in it except hidden ones; empty if nothing exists there.
std::string digest_below(const std::filesystem::path& path);

/// Reads the files from which recipes are composed. This is an interface so that composition can be
/// tested without a disk.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Returns the contents of the file; nullopt if it does not exist or is larger than `limit`
  /// bytes.
  virtual std::optional<std::string> read(const std::filesystem::path& path,
                                          std::size_t limit) const = 0;
  virtual bool is_file(const std::filesystem::path& path) const = 0;
  virtual bool is_folder(const std::filesystem::path& path) const = 0;
  /// Returns the names of the entries of `folder`, sorted; empty if there is no such folder.
  virtual std::vector<std::string> list(const std::filesystem::path& folder) const = 0;
};

/// Returns the file system of this machine.
const FileSystem& real_file_system();

/// Returns this user's cache folder: $RETORT_CACHE or, failing that, retort/ under $XDG_CACHE_HOME
/// or .cache/retort under $HOME; empty if none of them is set to an absolute path.
std::filesystem::path cache_folder();

}  // namespace runner
