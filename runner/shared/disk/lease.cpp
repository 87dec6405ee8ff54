#include "runner/shared/disk/lease.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/parked_thread.h"
#include "runner/shared/error/exit_code.h"

namespace runner {
namespace {

namespace fs = std::filesystem;
using Holder = Lease::Holder;
using std::chrono::milliseconds;

constexpr std::string_view kOfWorker = ".worker", kDraft = ".part";
constexpr milliseconds kShortLook(20);
constexpr milliseconds kWorkersPatience(
    3000);  // a killed retort's worker is gone within milliseconds
constexpr std::chrono::seconds kSilentMachine(
    120);  // after this long, a holder on another machine no longer counts as alive
constexpr std::size_t kLongestLease = 4096;

std::string first_line_of(const fs::path& path) {
  std::ifstream file = open_regular(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Returns the start time of a process, from /proc/N/stat; empty if it has exited or the time is
/// not available.
std::string start_of(std::int64_t process) {
  const std::string line = first_line_of("/proc/" + std::to_string(process) + "/stat");
  const std::size_t name_end = line.rfind(')');  // the name may contain anything
  if (name_end == line.npos) return "";
  std::istringstream words(line.substr(name_end + 1));
  std::string word;
  constexpr int kState = 3, kStart = 22;
  for (int field = kState; field <= kStart && words >> word; ++field)
    if (field == kState && (word == "Z" || word == "X")) return "";
  return word;
}

std::string own_host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string own_space() {
  std::error_code error;
  return fs::read_symlink("/proc/self/ns/pid", error).string();
}

Holder ourselves() {
  return {.host = own_host(),
          .boot = first_line_of("/proc/sys/kernel/random/boot_id"),
          .space = own_space(),
          .started = start_of(getpid()),
          .process = getpid()};
}

/// Returns the text of a lease. For a given holder, it always has the same length, so it can be
/// overwritten in place.
std::string text_of_lease(const Holder& holder, std::uint64_t beats) {
  std::string beat = std::to_string(beats);
  beat.insert(0, 20 - std::min<std::size_t>(20, beat.size()), '0');
  return "retort lease 1\nstate " + std::string(holder.is_held ? "held" : "free") + "\nbeat " +
         beat + "\nprocess " + std::to_string(holder.process) + "\nstarted " + holder.started +
         "\nboot " + holder.boot + "\nspace " + holder.space + "\nhost " + holder.host + "\n";
}

/// Parses the text of a lease; nullopt if it is incomplete.
std::optional<Holder> holder_in(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!text.ends_with('\n') || !std::getline(lines, line) || line != "retort lease 1")
    return std::nullopt;
  std::map<std::string, std::string> fields;
  while (std::getline(lines, line)) {
    const std::size_t space = line.find(' ');
    if (space != line.npos) fields[line.substr(0, space)] = line.substr(space + 1);
  }
  if (!fields.contains("host") || !fields.contains("process")) return std::nullopt;
  Holder holder{.is_held = fields["state"] != "free",
                .host = fields["host"],
                .boot = fields["boot"],
                .space = fields["space"],
                .started = fields["started"]};
  const std::string& process = fields["process"];
  std::from_chars(process.data(), process.data() + process.size(), holder.process);
  return holder;
}

std::string shown_holder(const std::optional<Holder>& holder) {
  if (!holder) return "another process";
  return "process " + std::to_string(holder->process) + " on '" + holder->host + "'";
}

struct Numbered {
  std::uint64_t number = 0;  // 0: there is no lease
  fs::path path;
};

fs::path path_of_lease(const fs::path& folder, std::uint64_t number) {
  return folder / (std::string(Lease::kName) + std::to_string(number));
}

std::vector<Numbered> leases_in(const fs::path& folder) {
  std::vector<Numbered> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(Lease::kName)) continue;
    Numbered one{.path = at->path()};
    const char* const last = name.data() + name.size();
    const auto [after, wrong] =
        std::from_chars(name.data() + Lease::kName.size(), last, one.number);
    if (wrong == std::errc() && after == last) found.push_back(std::move(one));
  }
  return found;
}

Numbered newest_lease(const fs::path& folder) {
  const std::vector<Numbered> all = leases_in(folder);
  const auto found = std::ranges::max_element(all, {}, &Numbered::number);
  return found == all.end() ? Numbered{} : *found;
}

/// Returns the text of a lease. Opens the file each time, because a file system shared between
/// machines shows others' writes only on open.
std::string lease_text(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::string text(kLongestLease, '\0');
  const ssize_t size = file.is_open() ? ::read(*file, text.data(), text.size()) : 0;
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

/// True if the holder's process is alive; nullopt if this process cannot determine that.
std::optional<bool> is_alive(const Holder& holder) {
  if (!holder.is_held) return false;
  static const Holder us = ourselves();
  if (us.boot.empty() || holder.boot != us.boot || holder.space != us.space || holder.process <= 0)
    return std::nullopt;
  const int error = kill(static_cast<pid_t>(holder.process), 0) == 0 ? 0 : errno;
  if (error == ESRCH) return false;
  const std::string start = start_of(holder.process);
  if (start.empty() && error == EPERM)
    return std::nullopt;  // the process of another user may be hidden
  return !start.empty() && (holder.started.empty() || start == holder.started);
}

bool is_asked_to_end() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
         sigismember(&pending, SIGHUP) == 1;
}

void wait_to_look(const Lease::Options& options, milliseconds time) {
  if (options.wait) return options.wait(time);
  for (; time > milliseconds(0) && !is_asked_to_end(); time -= kShortLook)
    std::this_thread::sleep_for(std::min(time, kShortLook));
}

/// True if the holder of a lease is not writing heartbeats. Used if this process cannot check the
/// holder's process directly.
bool is_silent(const fs::path& folder, const Numbered& lease, const Lease::Options& options) {
  const std::string before = lease_text(lease.path);
  if (options.on_wait)
    options.on_wait(shown_holder(holder_in(before)) + " was working in '" +
                    folder.parent_path().string() + "': waiting " +
                    std::to_string(options.looks * options.beat.count() / 1000) +
                    " s for a heartbeat");
  for (int look = 0; look < options.looks; ++look) {
    wait_to_look(options, options.beat);
    if (is_asked_to_end() || newest_lease(folder).number != lease.number) return false;
    const std::string now = lease_text(lease.path);
    const auto holder = holder_in(now);
    if (holder && !holder->is_held) return true;
    if (now != before) return false;
  }
  return true;
}

/// True if the processes that joined an exited holder have exited too.
bool is_left(const Numbered& lease, const Lease::Options& options) {
  const auto worker = holder_in(lease_text(lease.path.string() + std::string(kOfWorker)));
  for (milliseconds waited(0); worker && is_alive(*worker).value_or(false); waited += kShortLook) {
    if (waited >= kWorkersPatience || is_asked_to_end()) return false;
    wait_to_look(options, kShortLook);
  }
  return true;
}

bool may_be_taken(const fs::path& folder, const Numbered& lease, const Lease::Options& options) {
  if (lease.number == 0) return true;
  const auto holder = holder_in(lease_text(lease.path));
  const auto alive = holder ? is_alive(*holder) : std::nullopt;
  const bool is_gone = alive ? !*alive : is_silent(folder, lease, options);
  return is_gone && is_left(lease, options);
}

/// Writes `text` at the start of the file. Returns 0, or errno.
int write_whole(int file, const std::string& text) {
  const ssize_t size = ::pwrite(file, text.data(), text.size(), 0);
  return size == static_cast<ssize_t>(text.size()) ? 0 : size < 0 ? errno : ENOSPC;
}

/// Creates a file that must not exist. If the file system supports hard links, the file appears
/// together with its contents. Returns 0, or errno.
int make_file(const fs::path& path, const std::string& text) {
  const fs::path draft =
      path.string() + "." + own_host() + "." + std::to_string(getpid()) + std::string(kDraft);
  ::unlink(draft.c_str());
  Descriptor file(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.is_open()) return errno;
  int error = write_whole(*file, text);
  file.close();
  if (error == 0 && ::link(draft.c_str(), path.c_str()) != 0) error = errno;
  struct stat facts {};  // a server may repeat the call and report that the file exists
  if (error == EEXIST && ::stat(draft.c_str(), &facts) == 0 && facts.st_nlink == 2) error = 0;
  ::unlink(draft.c_str());
  if (error != EPERM && error != ENOSYS && error != EOPNOTSUPP && error != EMLINK) return error;
  file =
      Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.is_open()) return errno;
  error = write_whole(*file, text);
  if (error != 0) ::unlink(path.c_str());
  return error;
}

/// Removes all leases but the last two, and all drafts. If a file is removed here while another
/// process is creating it, that process will notice that it came too late.
void clear_up(const fs::path& folder, std::uint64_t number) {
  for (const Numbered& one : leases_in(folder)) {
    if (one.number + 1 >= number) continue;
    ::unlink((one.path.string() + std::string(kOfWorker)).c_str());
    ::unlink(one.path.c_str());
  }
  std::vector<fs::path> drafts;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(Lease::kName) && name.ends_with(kDraft)) drafts.push_back(at->path());
  }
  for (const fs::path& draft : drafts) ::unlink(draft.c_str());
}

void end_without_lease(const std::string& text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  _exit(static_cast<int>(ExitCode::kDeviceUnavailable));
}

}  // namespace

/// Writes the heartbeats of a held lease.
class Lease::Beating {
 public:
  Beating(fs::path folder, std::uint64_t number, Holder holder, Options options)
      : folder_(std::move(folder)),
        number_(number),
        holder_(std::move(holder)),
        options_(std::move(options)) {
    thread_.emplace(options_.beat, [this] { return beat(); });
  }
  ~Beating() {
    thread_.reset();
    holder_.is_held = false;
    write();
  }
  Beating(const Beating&) = delete;
  Beating& operator=(const Beating&) = delete;

 private:
  /// Returns false if the lease is lost.
  bool beat() {
    std::error_code ignored;
    const bool is_ours = fs::exists(path_of_lease(folder_, number_), ignored) &&
                         !fs::exists(path_of_lease(folder_, number_ + 1), ignored);
    if (is_ours) write();
    const Numbered other = is_ours ? Numbered{} : newest_lease(folder_);
    if (other.number <= number_) return true;  // also true if all leases were removed
    const std::string by = shown_holder(holder_in(lease_text(other.path)));
    if (options_.on_lost) options_.on_lost(by);
    else
      end_without_lease("error: '" + folder_.string() + "' was taken over by " + by +
                        ", since this process wrote no heartbeats; exiting\n");
    return false;
  }
  /// Writes a heartbeat. If this fails, others will see that the heartbeats have stopped.
  void write() {
    const Descriptor file(::open(path_of_lease(folder_, number_).c_str(),
                                 O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    write_whole(*file, text_of_lease(holder_, ++beats_));
  }

  const fs::path folder_;
  const std::uint64_t number_;
  Holder holder_;
  const Options options_;
  std::uint64_t beats_ = 0;
  std::optional<ParkedThread> thread_;
};

Lease::Lease(std::unique_ptr<Beating> beating) : beating_(std::move(beating)) {}
Lease::Lease(Lease&&) noexcept = default;
Lease& Lease::operator=(Lease&&) noexcept = default;
Lease::~Lease() = default;

Lease::Taken Lease::take(const fs::path& folder, Options options) {
  for (;;) {
    const Numbered last = newest_lease(folder);
    if (!may_be_taken(folder, last, options))
      return {.holder = shown_holder(holder_in(lease_text(newest_lease(folder).path)))};
    const std::uint64_t number = last.number + 1;
    const Holder us = ourselves();
    const int error = make_file(path_of_lease(folder, number), text_of_lease(us, 0));
    std::error_code ignored;
    const bool is_beaten =
        error == EEXIST || (error == ENOENT && fs::is_directory(folder, ignored));
    if (is_beaten) continue;  // another process was faster
    if (error != 0) return {.error = error};
    if (newest_lease(folder).number !=
        number) {  // by now, even the lease with the next number may be gone
      ::unlink(path_of_lease(folder, number).c_str());
      continue;
    }
    clear_up(folder, number);
    return {.lease = Lease(std::make_unique<Beating>(folder, number, us, std::move(options)))};
  }
}

std::optional<bool> Lease::is_at_work(const fs::path& folder, bool is_free_here) {
  const Numbered lease = newest_lease(folder);
  if (lease.number == 0) return std::nullopt;
  const auto holder = holder_in(lease_text(lease.path));
  if (holder) {
    if (const auto alive = is_alive(*holder)) return *alive;
    if (is_free_here && holder->boot == ourselves().boot) return false;
  }
  std::error_code error;
  const auto beaten = fs::last_write_time(lease.path, error);
  return !error && fs::file_time_type::clock::now() - beaten < kSilentMachine;
}

std::string Lease::holder_of(const fs::path& folder) {
  const Numbered lease = newest_lease(folder);
  const auto holder = lease.number == 0 ? std::nullopt : holder_in(lease_text(lease.path));
  return holder && holder->is_held ? shown_holder(holder) : "";
}

bool Lease::join(const fs::path& folder) {
  const Numbered lease = newest_lease(folder);
  const auto holder = lease.number == 0 ? std::nullopt : holder_in(lease_text(lease.path));
  if (!holder || !holder->is_held) return false;
  const fs::path path = lease.path.string() + std::string(kOfWorker);
  ::unlink(path.c_str());  // left behind by a worker that this process replaces
  return make_file(path, text_of_lease(ourselves(), 0)) == 0;
}

}  // namespace runner
