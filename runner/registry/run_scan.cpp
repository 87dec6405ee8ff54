#include "runner/registry/run_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "runner/disk/descriptor.h"
#include "runner/stage/run_layout.h"

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
    if (is_run(*folder, ".")) add(".", status);
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
      const bool is_same = known != known_.end() && known->second == stamp_of(status) && known->second != 0;
      if (is_same || is_run(*folder, name)) {
        add(path, status);
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

  std::int64_t stamp_of(const struct stat& status) const {
    const std::int64_t time = status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec;
    return time < now_ - kUnsettled ? time : 0;
  }

  void add(const std::string& path, const struct stat& status) {
    const std::int64_t stamp = stamp_of(status);
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
