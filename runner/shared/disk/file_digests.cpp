#include "runner/shared/disk/file_digests.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/new_file.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

// Each file in the folder contains records, oldest first, followed by a digest of all records. A
// record is a digest and its key, the start of a SHA-256 of path and state. The first byte of the
// key selects the file.
constexpr std::size_t kKeyBytes = 16, kDigestBytes = 32, kRecordBytes = kKeyBytes + kDigestBytes;
constexpr std::size_t kMostRecords = 4096;  // in one file
constexpr std::string_view kFormat = "digests of files, 1\n";
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kYoung = 2 * kSecond;  // the coarsest resolution of file timestamps

std::int64_t nanoseconds_of(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

std::int64_t real_time() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds_of(now);
}

int digit_value(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

std::string bytes_of_digits(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(digit_value(digits[i]) * 16 + digit_value(digits[i + 1]));
  return bytes;
}

std::string digits_of_bytes(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    digits += {kDigits[value >> 4], kDigits[value & 15]};
  }
  return digits;
}

std::string sum_of_records(std::string_view records) {
  Digest digest;
  digest.update(kFormat);
  digest.update(records);
  return bytes_of_digits(digest.finish());
}

}  // namespace

std::optional<FileState> file_state(const fs::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return FileState{.size = static_cast<std::uintmax_t>(status.st_size),
                   .modified = nanoseconds_of(status.st_mtim),
                   .changed = nanoseconds_of(status.st_ctim),
                   .inode = status.st_ino};
}

std::string to_text(const FileState& state) {
  return std::to_string(state.size) + "," + std::to_string(state.modified) + "," +
         std::to_string(state.changed) + "," + std::to_string(state.inode);
}

FileDigests::FileDigests(fs::path folder, Clock now)
    : folder_(std::move(folder)), now_(now ? std::move(now) : real_time) {}

FileDigests::~FileDigests() {
  for (const auto& [number, shard] : shards_) {
    if (shard.fresh.empty()) continue;
    try {
      keep(number, shard.fresh);
    } catch (const std::exception&) {
      return;  // the files will just have to be read again
    }
  }
}

std::optional<std::string> FileDigests::of(const fs::path& file) {
  const auto state = file_state(file);
  if (!state) return std::nullopt;
  const Key key = key_of(file, *state);
  Shard& own = shard(key);
  if (const auto known = own.known.find(key); known != own.known.end())
    return digits_of_bytes(known->second);
  const std::int64_t start = now_();
  Digest digest;
  ++read_;
  if (digest.update_from(file) != 0) return std::nullopt;
  std::string digits = digest.finish();
  if (state->changed + kYoung > start || file_state(file) != state) return digits;
  std::string bytes = bytes_of_digits(digits);
  own.fresh.append(key.data(), key.size()).append(bytes);
  own.known.emplace(key, std::move(bytes));
  return digits;
}

fs::path FileDigests::standard_folder() {
  const fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / "digests";
}

std::size_t FileDigests::KeyHash::operator()(const Key& key) const {
  std::size_t hash = 0;  // the key is already a hash
  std::memcpy(&hash, key.data(), sizeof hash);
  return hash;
}

FileDigests::Key FileDigests::key_of(const fs::path& file, const FileState& state) {
  std::error_code error;
  const fs::path whole = fs::absolute(file, error).lexically_normal();
  const std::string bytes =
      bytes_of_digits(sha256(whole.string() + '\0' + to_text(state)));  // no path contains a NUL
  Key key{};
  std::copy_n(bytes.begin(), key.size(), key.begin());
  return key;
}

fs::path FileDigests::shard_file(std::uint8_t number) const {
  return folder_ / digits_of_bytes(std::string(1, static_cast<char>(number)));
}

std::string digest_below(const fs::path& path) {
  FileDigests digests;
  if (auto digest = digests.of(path)) return *std::move(digest);
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    if (at->path().filename().string().starts_with('.')) at.disable_recursion_pending();
    else if (at->is_regular_file(gone)) files.push_back(at->path());
  }
  if (files.empty()) return "";
  std::ranges::sort(files);
  Digest all;
  for (const fs::path& file : files)
    all.update(file.lexically_relative(path).string() + '\0' + digests.of(file).value_or("") +
               '\n');
  return all.finish();
}

/// Returns the records in one file of the folder; empty if it is missing or damaged.
std::string FileDigests::records_of(std::uint8_t number) const {
  if (folder_.empty()) return "";
  const auto text =
      real_file_system().read(shard_file(number), kMostRecords * kRecordBytes + kDigestBytes);
  if (!text || text->size() < kDigestBytes || (text->size() - kDigestBytes) % kRecordBytes != 0)
    return "";
  std::string records = text->substr(0, text->size() - kDigestBytes);
  return text->ends_with(sum_of_records(records)) ? records : "";
}

FileDigests::Shard& FileDigests::shard(const Key& key) {
  const auto number = static_cast<std::uint8_t>(key.front());
  const auto [found, is_new] = shards_.try_emplace(number);
  Shard& shard = found->second;
  if (!is_new) return shard;
  const std::string records = records_of(number);
  for (std::size_t at = 0; at < records.size(); at += kRecordBytes) {
    Key one{};
    std::copy_n(records.begin() + static_cast<std::ptrdiff_t>(at), kKeyBytes, one.begin());
    shard.known.emplace(one, records.substr(at + kKeyBytes, kDigestBytes));
  }
  return shard;
}

/// Adds the `fresh` records to their file. Does not flush, because the checksum detects damage from
/// a power cut. Records added by other processes are kept, except those added between reading and
/// renaming.
void FileDigests::keep(std::uint8_t number, const std::string& fresh) const {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  std::string records = records_of(number) + fresh;
  if (const std::size_t count = records.size() / kRecordBytes; count > kMostRecords)
    records.erase(0, (count - kMostRecords) * kRecordBytes);
  const fs::path own =
      folder_ / ("." + shard_file(number).filename().string() + "." + std::to_string(::getpid()));
  disk().remove(own);  // left behind by a process with the same PID that was killed here
  NewFile file(own);
  file.append(records);
  file.append(sum_of_records(records));
  if (disk().rename(own, shard_file(number)) != 0) disk().remove(own);
}

namespace {

class DiskFiles : public FileSystem {
 public:
  std::optional<std::string> read(const std::filesystem::path& path,
                                  std::size_t limit) const override {
    if (!is_file(path)) return std::nullopt;  // reading a pipe or a device could block or never end
    std::ifstream stream(path, std::ios::binary);
    if (!stream) return std::nullopt;
    std::string text;
    std::array<char, 16384> chunk;
    while (text.size() <= limit && (stream.read(chunk.data(), chunk.size()), stream.gcount() > 0)) {
      text.append(chunk.data(), static_cast<std::size_t>(stream.gcount()));
    }
    if (text.size() > limit || stream.bad()) return std::nullopt;
    return text;
  }

  bool is_file(const std::filesystem::path& path) const override {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored);
  }

  bool is_folder(const std::filesystem::path& path) const override {
    std::error_code ignored;
    return std::filesystem::is_directory(path, ignored);
  }

  std::vector<std::string> list(const std::filesystem::path& folder) const override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
};

}  // namespace

const FileSystem& real_file_system() {
  static const DiskFiles disk;
  return disk;
}

std::filesystem::path cache_folder() {
  namespace fs = std::filesystem;
  const auto variable = [](const char* name) -> fs::path {
    const char* value = std::getenv(name);
    const fs::path path = value ? value : "";
    return path.is_absolute() ? path : fs::path();
  };
  if (fs::path own = variable("RETORT_CACHE"); !own.empty()) return own;
  if (const fs::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "retort";
  if (const fs::path home = variable("HOME"); !home.empty()) return home / ".cache/retort";
  return {};
}

}  // namespace runner
