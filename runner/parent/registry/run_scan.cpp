#include "runner/parent/registry/run_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/stage/run_layout.h"

namespace runner {
namespace {

constexpr int kLevels = 3;  // multirun/<date>/<time>/<number>
/// What changed within this time may change again without a new stamp, on file systems with coarse clocks.
constexpr std::int64_t kUnsettled = 2'000'000'000;

struct CloseListing {
  void operator()(DIR* listing) const { ::closedir(listing); }
};

class Scan {
 public:
  Scan(const std::unordered_map<std::string, std::int64_t>& known, std::vector<FoundRun>& found)
      : known_(known), found_(found) {}

  void root(const std::filesystem::path& path) {
    Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat status {};
    if (!folder.is_open() || ::fstat(*folder, &status) != 0) return;
    if (is_run(*folder, ".")) add(".", stamp_of(*folder, ".", status));
    else below(std::move(folder), "", 1);
  }

 private:
  /// The run or the runs in an open folder, which is `prefix` below the root.
  void below(Descriptor folder, const std::string& prefix, int level) {
    const int number = ::dup(*folder);
    const std::unique_ptr<DIR, CloseListing> listing(number < 0 ? nullptr : ::fdopendir(number));
    if (!listing) return;
    while (const dirent* entry = ::readdir(listing.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)) continue;
      struct stat status {};
      if (::fstatat(*folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode)) continue;
      const std::string path = prefix + name;
      const auto known = known_.find(path);
      const bool may_be_run = known != known_.end() || is_run(*folder, name);
      const std::int64_t stamp = may_be_run ? stamp_of(*folder, name, status) : 0;
      const bool is_same = known != known_.end() && known->second == stamp && stamp != 0;
      if (is_same || (may_be_run && is_run(*folder, name))) {
        add(path, stamp);
      } else if (level < kLevels) {
        Descriptor next(::openat(*folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        if (next.is_open()) below(std::move(next), path + "/", level + 1);
      }
    }
  }

  static bool is_run(int folder, const std::string& name) {
    struct stat status {};
    return ::fstatat(folder, RunLayout(name).mark().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(status.st_mode);
  }

  /// Of the run `name`, whose folder has `status`: of when its names changed last, and of the state of the files that
  /// an entry is read from, which somebody may have edited in place.
  std::int64_t stamp_of(int folder, const std::string& name, const struct stat& status) const {
    const std::int64_t time = time_of(status.st_mtim);
    if (time >= now_ - kUnsettled) return 0;
    std::uint64_t stamp = 14695981039346656037u;  // FNV-1a
    const auto add = [&](std::uint64_t number) {
      for (int byte = 0; byte < 8; ++byte, number >>= 8) stamp = (stamp ^ (number & 255)) * 1099511628211u;
    };
    add(static_cast<std::uint64_t>(time));
    const auto look = [&](const std::filesystem::path& path) {
      struct stat file {};
      if (::fstatat(folder, path.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) return false;
      for (const std::uint64_t number :
           {std::uint64_t{file.st_ino}, static_cast<std::uint64_t>(file.st_size),
            static_cast<std::uint64_t>(time_of(file.st_mtim)), static_cast<std::uint64_t>(time_of(file.st_ctim))})
        add(number);
      return true;
    };
    const RunLayout layout(name);
    for (const auto& path : {layout.summary(), layout.tags(), layout.records(), layout.mark(),
                             layout.records() / RunRecord::kRecipe, layout.records() / RunRecord::kSource})
      add(look(path));
    for (int number = 1; look(layout.resume(number) / RunRecord::kRecipe); ++number) {
    }
    return stamp == 0 ? 1 : static_cast<std::int64_t>(stamp);
  }

  static std::int64_t time_of(const struct timespec& time) {
    return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
  }

  void add(const std::string& path, std::int64_t stamp) {
    const auto known = known_.find(path);
    found_.push_back({path, stamp, stamp != 0 && known != known_.end() && known->second == stamp});
  }

  const std::unordered_map<std::string, std::int64_t>& known_;
  std::vector<FoundRun>& found_;
  const std::int64_t now_ =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
};

}  // namespace

std::vector<FoundRun> scan_runs(const std::filesystem::path& root,
                                const std::unordered_map<std::string, std::int64_t>& known) {
  std::vector<FoundRun> found;
  Scan(known, found).root(root);
  std::ranges::sort(found, {}, &FoundRun::folder);
  return found;
}

}  // namespace runner
