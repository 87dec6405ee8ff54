#include "stages/data/make_image_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runner/run_context.h"
#include "runner/stage.h"
#include "stages/data/jpeg_writer.h"
#include "stages/data/shapes.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::StageError;

constexpr const char* kMarker = ".retort-made.json";
constexpr int kQuality = 92;
constexpr int kVersion = 1;  // counted up when the pictures change

nlohmann::ordered_json numbers(const MadeImages& images) {
  return {{"version", kVersion},
          {"classes", images.classes},
          {"per_class", images.per_class},
          {"size", images.size},
          {"seed", images.seed}};
}

[[noreturn]] void fail(ErrorCode code, const fs::path& path, const std::error_code& error) {
  const bool full = error == std::errc::no_space_on_device;
  throw StageError(full ? ErrorCode::kDiskFull : code, "/root",
                   "cannot write '" + path.string() + "': " + error.message());
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::create_directory(folder, error)) {
    fail(ErrorCode::kCannotCreate, folder, error ? error : std::make_error_code(std::errc::file_exists));
  }
}

void write_file(const fs::path& path, std::span<const std::uint8_t> bytes) {
  const auto system_error = [] { return std::error_code(errno, std::generic_category()); };
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) fail(ErrorCode::kCannotCreate, path, system_error());
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::error_code error = system_error();
      ::close(file);
      fail(ErrorCode::kCannotWrite, path, error);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (::close(file) != 0) fail(ErrorCode::kCannotWrite, path, system_error());
}

/// A folder beside `folder` that is removed with all it holds unless it takes the other's name.
class Draft {
 public:
  explicit Draft(const fs::path& folder) : folder_(folder) {
    std::error_code error;
    const fs::path above = fs::absolute(folder).parent_path();
    fs::create_directories(above, error);
    if (error) fail(ErrorCode::kCannotCreate, above, error);
    draft_ = above / ("." + folder.filename().string() + "." + std::to_string(::getpid()) + ".part");
    create_folder(draft_);
  }
  ~Draft() {
    std::error_code ignored;
    if (!draft_.empty()) fs::remove_all(draft_, ignored);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const fs::path& path() const { return draft_; }

  void publish() {
    std::error_code error;
    fs::rename(draft_, folder_, error);  // over an empty folder too
    if (error) fail(ErrorCode::kCannotCreate, folder_, error);
    draft_.clear();
  }

 private:
  fs::path folder_, draft_;
};

void check(const fs::path& folder, const MadeImages& images) {
  const auto kinds = static_cast<std::int64_t>(shape_names().size());
  if (images.classes < 1 || images.classes > kinds) {
    throw StageError(ErrorCode::kNotAllowedValue, "/make/classes",
                     "cannot make " + std::to_string(images.classes) + " classes",
                     "there are " + std::to_string(kinds) + " kinds of shapes");
  }
  if (images.per_class < 1 || images.size < 8 || images.size > 4096) {
    throw StageError(ErrorCode::kNotAllowedValue, "/make",
                     "cannot make " + std::to_string(images.per_class) + " images of " + std::to_string(images.size) +
                         " pixels a class",
                     "make at least one, of 8 to 4096 pixels");
  }
  std::error_code error;
  const bool exists = fs::exists(fs::symlink_status(folder, error));
  if (exists && !(fs::is_directory(folder, error) && fs::is_empty(folder, error) && !error)) {
    throw StageError(ErrorCode::kFolderExists, "/root", "'" + folder.string() + "' exists already",
                     "choose another folder, or remove this one");
  }
}

}  // namespace

void make_image_folder(const fs::path& folder, const MadeImages& images, const MakeCallbacks& callbacks) {
  // A trailing slash would leave it without a name.
  const fs::path target = folder.has_filename() ? folder : folder.parent_path();
  check(target, images);
  Draft draft(target);
  std::int64_t done = 0;
  for (std::int64_t label = 0; label < images.classes; ++label) {
    const auto shape = static_cast<std::size_t>(label);
    const fs::path below = draft.path() / shape_names()[shape];
    create_folder(below);
    for (std::int64_t i = 0; i < images.per_class; ++i) {
      if (callbacks.cancelled && callbacks.cancelled()) throw runner::Cancelled{};
      char name[32];
      std::snprintf(name, sizeof name, "%05lld.jpg", static_cast<long long>(i));
      const Random random({static_cast<std::uint64_t>(images.seed), shape, static_cast<std::uint64_t>(i)});
      write_file(below / name, encode_jpeg(draw_shape(shape, static_cast<int>(images.size), random), kQuality));
      if (callbacks.progress) callbacks.progress(++done, images.classes * images.per_class);
    }
  }
  const std::string marker = numbers(images).dump(2) + "\n";
  write_file(draft.path() / kMarker, {reinterpret_cast<const std::uint8_t*>(marker.data()), marker.size()});
  draft.publish();
}

std::optional<runner::Diagnostic> differs(const fs::path& folder, const MadeImages& images) {
  std::ifstream file(folder / kMarker);
  std::string text(4096, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const auto made = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!made.is_object()) {
    return runner::Diagnostic{ErrorCode::kFolderExists,
                              {},
                              "",
                              "'" + folder.string() + "' exists already and was not made by 'make'",
                              "set make: null to use what is there, or choose another root"};
  }
  if (made == numbers(images)) return std::nullopt;
  return runner::Diagnostic{ErrorCode::kOptionConflict,
                            {},
                            "",
                            "'" + folder.string() + "' was made with other numbers: " + made.dump().substr(0, 200),
                            "choose another root, or remove the folder to have it made again"};
}

}  // namespace stages
