#include "stages/fetch/unpack.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include <archive.h>
#include <archive_entry.h>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/units.h"

namespace stages {
namespace {

constexpr double kInterval = 0.1;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

FetchCallbacks callbacks_of(runner::RunContext& context) {
  return {.progress = [&context](const runner::Progress& progress) { context.progress(progress); },
          .say = [&context](std::string_view line) { context.say(line); },
          .canceled = [&context] { return context.canceled(); }};
}

void stop_if_canceled(const FetchCallbacks& callbacks) {
  if (callbacks.canceled && callbacks.canceled()) throw runner::Canceled{};
}

ByteProgress::ByteProgress(const FetchCallbacks& callbacks, std::string phase, std::int64_t begin,
                           std::int64_t all)
    : callbacks_(callbacks),
      phase_(std::move(phase)),
      all_(all),
      reported_bytes_(begin),
      reported_seconds_(seconds_now()) {}

void ByteProgress::at(std::int64_t done) {
  if (!callbacks_.progress) return;
  const double now = seconds_now(), passed = now - reported_seconds_;
  if (passed < kInterval && done != all_) return;
  if (passed > 0) {  // smoothed, since the rate fluctuates between pieces
    const double speed = static_cast<double>(done - reported_bytes_) / passed;
    bytes_per_second_ = bytes_per_second_ > 0 ? 0.9 * bytes_per_second_ + 0.1 * speed : speed;
  }
  reported_bytes_ = done;
  reported_seconds_ = now;
  runner::Progress progress;
  progress.phase = phase_;
  progress.bytes = done;
  progress.bytes_in_all = all_;
  progress.bytes_per_second = bytes_per_second_;
  if (all_ > done && bytes_per_second_ > 0)
    progress.seconds_left = static_cast<double>(all_ - done) / bytes_per_second_;
  callbacks_.progress(progress);
}

namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::StageError;

constexpr std::size_t kPiece = 256 << 10, kLongestName = 255, kMostParts = 32;

struct ArchiveCloser {
  void operator()(archive* a) const { archive_read_free(a); }
};

class Unpacking {
 public:
  Unpacking(const fs::path& file, const fs::path& folder, const std::string& inner,
            const UnpackLimits& limits, const FetchCallbacks& callbacks, runner::Storage& storage)
      : file_(file),
        folder_(folder),
        inner_(inner),
        limits_(limits),
        callbacks_(callbacks),
        storage_(storage) {}

  Unpacked run() {
    const std::unique_ptr<archive, ArchiveCloser> opened(archive_read_new());
    archive* const a = opened.get();
    archive_read_support_filter_gzip(a);
    archive_read_support_format_tar(a);
    std::error_code error;
    const auto all = static_cast<std::int64_t>(fs::file_size(file_, error));
    ByteProgress progress(callbacks_, "unpack " + file_.filename().string(), 0, error ? 0 : all);
    if (archive_read_open_filename(a, file_.c_str(), kPiece) != ARCHIVE_OK) damaged(a);
    archive_entry* entry = nullptr;
    for (std::int64_t entries = 0;; ++entries) {
      const int result = archive_read_next_header(a, &entry);
      if (result == ARCHIVE_EOF) return unpacked_;
      // A warning may concern a name in another encoding, for example; the resulting name is
      // checked below.
      if (result != ARCHIVE_OK && result != ARCHIVE_WARN) damaged(a);
      if (entries >= limits_.entries)
        refuse("more than " + std::to_string(limits_.entries) + " files and folders");
      take(a, entry, progress);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw StageError(ErrorCode::kBadArchive, "'" + file_.filename().string() + "' contains " + what)
        .with_help("this is not the published archive; nothing was kept");
  }
  [[noreturn]] void damaged(archive* a) const {
    const char* why = archive_error_string(a);
    throw StageError(
        ErrorCode::kBadArchive,
        "'" + file_.filename().string() + "' cannot be unpacked: " + (why ? why : "it is damaged"))
        .with_help("fetch it again");
  }

  void take(archive* a, archive_entry* entry, ByteProgress& progress) {
    stop_if_canceled(callbacks_);
    const char* raw = archive_entry_pathname(entry);
    if (!raw) raw = archive_entry_pathname_utf8(entry);
    const std::string path = raw ? raw : "";
    if (archive_entry_hardlink(entry)) refuse("'" + path + "', a hard link");
    const auto type = archive_entry_filetype(entry);
    if (type == AE_IFLNK) refuse("'" + path + "', a symbolic link");
    if (type != AE_IFREG && type != AE_IFDIR)
      refuse("'" + path + "', which is neither a file nor a folder");
    auto parts = safe_parts(path);
    const bool is_root = type == AE_IFDIR && (path == "." || path == "./");
    if (parts.empty() && !is_root)
      refuse("'" + path + "', a path that leads outside the folder or is invalid");
    if (!parts.empty() && !inner_.empty() && parts.front() == inner_) parts.erase(parts.begin());
    if (type == AE_IFDIR) make_folders(parts);
    else if (parts.empty()) refuse("'" + path + "', a file where a folder is expected");
    else write_file(a, path, parts, progress);
  }

  void make_folders(const std::vector<std::string>& parts) {
    fs::path path = folder_;
    for (const std::string& part : parts) {
      path /= part;
      if (folders_.contains(path)) continue;
      if (storage_.make_folder(path) != 0) {
        if (errno == EEXIST) refuse("'" + part + "' both as a file and as a folder");
        throw runner::WriteError(place(path, errno));
      }
      folders_.insert(path);
    }
  }

  void write_file(archive* a, const std::string& shown, std::vector<std::string> parts,
                  ByteProgress& progress) {
    const std::string name = parts.back();
    fs::path path = folder_;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) path /= parts[i];
    path /= name;
    parts.pop_back();
    make_folders(parts);
    std::error_code error;
    if (fs::exists(fs::symlink_status(path, error))) refuse("'" + shown + "' twice");
    runner::NewFile file(path, storage_);
    std::string piece(kPiece, '\0');
    while (true) {
      const la_ssize_t size = archive_read_data(a, piece.data(), piece.size());
      if (size == 0) break;
      if (size < 0) damaged(a);
      unpacked_.bytes += size;
      if (unpacked_.bytes > limits_.bytes) refuse("more than " + runner::bytes_text(limits_.bytes));
      file.append({piece.data(), static_cast<std::size_t>(size)});
      stop_if_canceled(callbacks_);
      progress.at(archive_filter_bytes(a, -1));
    }
    ++unpacked_.files;
  }

  static runner::Diagnostic place(const fs::path& path, int error) {
    auto diagnostic = runner::write_diagnostic(path, error, ErrorCode::kCannotCreate);
    diagnostic.help = "free up space, or choose another folder";
    return diagnostic;
  }

  const fs::path& file_;
  const fs::path& folder_;
  const std::string& inner_;
  const UnpackLimits& limits_;
  const FetchCallbacks& callbacks_;
  runner::Storage& storage_;
  std::set<fs::path> folders_;  // folders created by this object
  Unpacked unpacked_;
};

}  // namespace

Unpacked unpack(const fs::path& archive, const fs::path& folder, const std::string& inner,
                const UnpackLimits& limits, const FetchCallbacks& callbacks,
                runner::Storage& storage) {
  return Unpacking(archive, folder, inner, limits, callbacks, storage).run();
}

std::vector<std::string> safe_parts(std::string_view path) {
  std::vector<std::string> parts;
  if (path.empty() || path.starts_with('/')) return {};
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    const bool has_control = std::ranges::any_of(
        part, [](unsigned char c) { return c < ' ' || c == 0x7f || c == '\\'; });
    if (part == ".." || has_control || part.size() > kLongestName) return {};
    parts.emplace_back(part);
    if (parts.size() > kMostParts) return {};
  }
  return parts;
}

}  // namespace stages
