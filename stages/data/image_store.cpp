#include "stages/data/image_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "runner/shared/disk/digest.h"
#include "runner/shared/disk/new_file.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kStaysFree = std::uint64_t{2} << 30;  // bytes of disk space
constexpr std::size_t kDigest = 64;
constexpr std::int32_t kLongestSide = 1 << 16;

/// The header of an entry, before the pixels.
struct Header {
  std::int32_t width = 0, height = 0, whole_width = 0, whole_height = 0, is_unlike = 0;
};

std::string to_entry(const StoredImage& picture) {
  const Image& image = *picture.kept.image;
  const Header header{image.width, image.height, picture.kept.width, picture.kept.height,
                      picture.is_unlike ? 1 : 0};
  std::string body(sizeof header + image.pixels.size(), '\0');
  std::memcpy(body.data(), &header, sizeof header);
  std::copy(image.pixels.begin(), image.pixels.end(), body.begin() + sizeof header);
  return runner::sha256(body) + body;
}

std::optional<StoredImage> from_entry(std::string_view entry) {
  Header header;
  if (entry.size() < kDigest + sizeof header) return std::nullopt;
  const std::string_view body = entry.substr(kDigest);
  std::memcpy(&header, body.data(), sizeof header);
  for (const std::int32_t side : {header.width, header.height}) {
    if (side < 1 || side > kLongestSide) return std::nullopt;
  }
  const auto pixels = std::size_t{3} * static_cast<std::size_t>(header.width) *
                      static_cast<std::size_t>(header.height);
  if (body.size() != sizeof header + pixels || runner::sha256(body) != entry.substr(0, kDigest))
    return std::nullopt;
  Image image = Image::unset(header.width, header.height);
  std::copy(body.begin() + sizeof header, body.end(), image.pixels.begin());
  return StoredImage{
      {std::make_shared<const Image>(std::move(image)), header.whole_width, header.whole_height},
      header.is_unlike != 0};
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

}  // namespace

ImageStore::ImageStore(std::int64_t most_bytes, std::string how, runner::Storage& storage)
    : most_bytes_(most_bytes),
      how_(std::move(how)),
      storage_(storage),
      start_(fs::file_time_type::clock::now()) {}

void ImageStore::open(const fs::path& cache, const std::string& build) {
  const std::lock_guard lock(mutex_);
  folder_ = cache.empty() ? cache : cache / "pictures";
  build_ = build;
}

fs::path ImageStore::folder() const {
  const std::lock_guard lock(mutex_);
  return folder_;
}

std::optional<ImageStore::Version> ImageStore::version_of(const fs::path& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) return std::nullopt;
  return Version{static_cast<std::uint64_t>(found.st_size),
                 static_cast<std::uint64_t>(found.st_ino), nanoseconds(found.st_mtim),
                 nanoseconds(found.st_ctim)};
}

std::string ImageStore::key_of(const std::string& digest, const std::optional<Box>& box) const {
  std::string text = build_ + '\n' + how_ + '\n' + digest + '\n';
  if (box) {
    for (const int number : {box->left, box->top, box->width, box->height})
      text += std::to_string(number) + ' ';
  }
  return runner::sha256(text);
}

std::optional<std::string> ImageStore::known_key(const fs::path& file,
                                                 const std::optional<Box>& box) const {
  std::string digest;
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(file);
    if (found == known_.end()) return std::nullopt;
    const auto version = version_of(file);
    if (!version || *version != found->second.version) return std::nullopt;
    digest = found->second.digest;
  }
  return key_of(digest, box);
}

std::string ImageStore::key(const fs::path& file, const std::optional<Box>& box, Bytes bytes) {
  const std::string digest =
      runner::sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  // If a file changes while it is being read, its size usually changes too, so its key is not
  // remembered. If it is replaced later, known_key() sees a different version.
  if (const auto version = version_of(file); version && version->size == bytes.size()) {
    const std::lock_guard lock(mutex_);
    known_[file] = {*version, digest};
  }
  return key_of(digest, box);
}

fs::path ImageStore::path_in(const fs::path& folder, const std::string& key) {
  return folder / key.substr(0, 2) / key.substr(2);
}

std::optional<StoredImage> ImageStore::find(const std::string& key) {
  const fs::path path = path_in(folder(), key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string entry{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::optional<StoredImage> picture = from_entry(entry);
  if (!picture) {
    storage_.remove(path);
    return std::nullopt;
  }
  std::error_code error;
  const auto used = fs::last_write_time(path, error);
  if (!error && used < start_) fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return picture;
}

/// Lists the existing entries in the folder.
void ImageStore::survey() {
  is_surveyed_ = true;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder_, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    if (!at->is_regular_file(gone) || gone) continue;
    const auto used = at->last_write_time(gone);
    const auto bytes = static_cast<std::int64_t>(at->file_size(gone));
    if (gone) continue;
    bytes_ += bytes;
    if (used < start_) old_.push_back({used, bytes, at->path()});
  }
  std::ranges::sort(old_, std::greater{}, &Entry::used);
}

/// Makes room for `bytes` bytes. Returns false if that is not possible.
bool ImageStore::make_room(std::int64_t bytes) {
  const auto is_full = [&] {
    const auto free = storage_.free_bytes(folder_);
    return bytes_ + bytes > most_bytes_ ||
           (free && *free < kStaysFree + static_cast<std::uint64_t>(bytes));
  };
  while (is_full()) {
    if (old_.empty()) return false;
    const Entry entry = std::move(old_.back());
    old_.pop_back();
    std::error_code error;
    if (fs::last_write_time(entry.path, error) >= start_ && !error)
      continue;  // used since this object was created
    storage_.remove(entry.path);
    bytes_ -= entry.bytes;
  }
  return true;
}

void ImageStore::put(const std::string& key, const StoredImage& picture) {
  const std::string entry = to_entry(picture);
  const fs::path path = path_in(folder(), key);
  fs::path draft = path;
  {
    const std::lock_guard lock(mutex_);
    if (has_failed_) return;
    try {
      runner::make_folders(path.parent_path(), storage_);
      if (!is_surveyed_) survey();
      if (!make_room(std::ssize(entry))) return;
      bytes_ += std::ssize(entry);
      draft += ".part-" + std::to_string(getpid()) + "-" + std::to_string(++written_);
    } catch (const std::exception& error) {
      has_failed_ = true;
      std::fprintf(stderr, "images are not cached on disk: %s\n", error.what());
      return;
    }
  }
  try {
    // The file is not flushed to disk. After a power failure, the checksum reveals damage.
    runner::NewFile(draft, storage_).append(entry);
    if (storage_.rename(draft, path) != 0)
      throw std::system_error(errno, std::generic_category(), path.string());
  } catch (const std::exception& error) {
    storage_.remove(draft);
    const std::lock_guard lock(mutex_);
    if (!std::exchange(has_failed_, true))
      std::fprintf(stderr, "images are not cached on disk: %s\n", error.what());
  }
}

}  // namespace stages
