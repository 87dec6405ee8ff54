// A library for LD_PRELOAD that intercepts each call with which a program changes files below a
// folder. It can make the call fail, kill the programs at the call, or copy the folder before it,
// which shows what is left if all programs are killed at that moment. Environment variables control
// it. Several programs may run at once; their calls are intercepted one at a time.
//
//   WRITING_CALLS=below:FOLDER,in:FOLDER2   only records the calls
//   WRITING_CALLS=…,copy                    copies the folder before each call to
//                                           FOLDER2/copies/000001 and so on
//   WRITING_CALLS=…,kill:retort-worker:17   kills the worker once, at its 17th call; a write is
//                                           half done
//   WRITING_CALLS=…,fail:retort:3:28        lets its third call, and no other, fail with ENOSPC
//   NO_FLOCK=37                             lets flock(2) fail with ENOLCK for every file
//
// FOLDER2/calls gets a line for each call: its number, the program, its number in the program, the
// operation and the path.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace {

namespace fs = std::filesystem;

thread_local bool is_inside = false;  // calls made here are not the program's own

struct Request {
  std::string below, in;
  enum class Action { kNone, kCopy, kKill, kFail } action = Action::kNone;
  std::string program;
  long call = 0;
  int error = 0;
};

Request request_from(const char* text) {
  Request request;
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    const std::size_t end = rest.find(',');
    const std::string one = rest.substr(0, end);
    rest.erase(0, end == rest.npos ? end : end + 1);
    const std::size_t colon = one.find(':');
    const std::string key = one.substr(0, colon),
                      value = colon == one.npos ? "" : one.substr(colon + 1);
    if (key == "below") request.below = value + "/";
    if (key == "in") request.in = value;
    if (key == "copy") request.action = Request::Action::kCopy;
    if (key != "kill" && key != "fail") continue;
    request.action = key == "kill" ? Request::Action::kKill : Request::Action::kFail;
    request.program = value.substr(0, value.find(':'));
    char* after = nullptr;
    request.call = std::strtol(value.c_str() + request.program.size() + 1, &after, 10);
    if (*after == ':') request.error = std::atoi(after + 1);
  }
  return request;
}

const Request& request() {
  static const Request* const request = new Request(request_from(std::getenv("WRITING_CALLS")));
  return *request;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
#define NEXT(name) (next<decltype(name)>(#name))

std::string path_of(int file) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t size = readlink(link.c_str(), path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "";
}

std::string path_of(int folder, const char* path) {
  if (!path) return "";
  if (*path == '/') return path;
  char here[PATH_MAX];
  const std::string base = folder != AT_FDCWD          ? path_of(folder)
                           : getcwd(here, sizeof here) ? here
                                                       : "";
  return base + "/" + path;
}

/// One call, from its interception to its end.
class Call {
 public:
  Call(const char* name, std::string path, std::string other = "")
      : name_(name), path_(std::move(path)), is_seen_(!is_inside && matters(path_, other)) {
    if (!is_seen_) return;
    is_inside = true;
    const int error = errno;
    lock_ = static_cast<int>(syscall(SYS_openat, AT_FDCWD, (request().in + "/calls").c_str(),
                                     O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    syscall(SYS_flock, lock_, LOCK_EX);
    static long counted = 0;
    own_ = ++counted;
    number_ = lines() + 1;
    const std::string line = std::to_string(number_) + " " + program_invocation_short_name + " " +
                             std::to_string(own_) + " " + name_ + " " + path_ + "\n";
    syscall(SYS_write, lock_, line.data(), line.size());
    copy("");
    is_struck_ = own_ == request().call && request().program == program_invocation_short_name &&
                 is_first_strike();
    errno = error;
  }
  ~Call() {
    if (!is_seen_) return;
    const int error = errno;
    syscall(SYS_close, lock_);
    is_inside = false;
    errno = error;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// True if the call must fail, with errno set. The program may be killed here.
  bool fails() {
    if (!is_struck_) return false;
    if (request().action == Request::Action::kKill) raise(SIGKILL);
    errno = request().error;
    return true;
  }
  /// For a write of this many bytes: how many must be written first, after which half_done() is
  /// called.
  std::size_t half(std::size_t size) const {
    const bool is_halved = is_seen_ && (request().action == Request::Action::kCopy ||
                                        (is_struck_ && request().action == Request::Action::kKill));
    return is_halved ? size / 2 : 0;
  }
  void half_done() { copy("-half"); }

 private:
  static bool matters(const std::string& path, const std::string& other) {
    if (request().below.empty()) return false;
    return path.starts_with(request().below) || other.starts_with(request().below);
  }
  /// A restarted program counts again.
  static bool is_first_strike() {
    const long file = syscall(SYS_openat, AT_FDCWD, (request().in + "/struck").c_str(),
                              O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file >= 0) syscall(SYS_close, file);
    return file >= 0;
  }
  long lines() const {
    long count = 0;
    char piece[1 << 14];
    ::lseek(lock_, 0, SEEK_SET);
    for (ssize_t size; (size = ::read(lock_, piece, sizeof piece)) > 0;)
      for (ssize_t i = 0; i < size; ++i) count += piece[i] == '\n' ? 1 : 0;
    return count;
  }
  void copy(const std::string& ending) const {
    if (request().action != Request::Action::kCopy) return;
    char number[16];
    std::snprintf(number, sizeof number, "%06ld", number_);
    std::error_code error;
    const fs::path to = request().in + "/copies/" + number + ending;
    fs::create_directories(to, error);
    fs::copy(request().below, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks,
             error);
    if (error) std::fprintf(stderr, "writing_calls: cannot copy: %s\n", error.message().c_str());
  }

  const char* const name_;
  const std::string path_;
  const bool is_seen_;
  bool is_struck_ = false;
  int lock_ = -1;
  long number_ = 0, own_ = 0;
};

bool may_write(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}

int mode_in(int flags, std::va_list& rest) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, int) : 0;
}

/// Writes in two halves if the moment between them matters.
template <typename Write>
ssize_t in_halves(Call& call, std::size_t size, Write write) {
  const std::size_t half = call.half(size);
  const ssize_t first = half > 0 ? write(std::size_t{0}, half) : 0;
  if (first < 0) return first;
  if (half > 0) call.half_done();
  if (call.fails()) return -1;
  const ssize_t rest =
      write(static_cast<std::size_t>(first), size - static_cast<std::size_t>(first));
  return rest < 0 ? rest : first + rest;
}

const char* bytes(const void* data) { return static_cast<const char*>(data); }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const int mode = mode_in(flags, rest);
  va_end(rest);
  Call call("open", may_write(flags) ? path_of(AT_FDCWD, path) : "");
  return call.fails() ? -1 : static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int open64(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const int mode = mode_in(flags, rest);
  va_end(rest);
  return open(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const int mode = mode_in(flags, rest);
  va_end(rest);
  Call call("open", may_write(flags) ? path_of(folder, path) : "");
  return call.fails() ? -1 : static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}
int openat64(int folder, const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const int mode = mode_in(flags, rest);
  va_end(rest);
  return openat(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  Call call("open", std::strpbrk(mode, "wa+") ? path_of(AT_FDCWD, path) : "");
  return call.fails() ? nullptr : NEXT(fopen)(path, mode);
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

ssize_t write(int file, const void* data, size_t size) {
  Call call("write", is_inside || file <= 2 ? "" : path_of(file));
  return in_halves(call, size, [&](size_t from, size_t count) {
    return syscall(SYS_write, file, bytes(data) + from, count);
  });
}
ssize_t pwrite64(int file, const void* data, size_t size, off64_t at) {
  Call call("write", is_inside ? "" : path_of(file));
  return in_halves(call, size, [&](size_t from, size_t count) {
    return syscall(SYS_pwrite64, file, bytes(data) + from, count, at + static_cast<off64_t>(from));
  });
}
ssize_t pwrite(int file, const void* data, size_t size, off_t at) {
  return pwrite64(file, data, size, at);
}
ssize_t writev(int file, const iovec* pieces, int count) {
  Call call("write", is_inside || file <= 2 ? "" : path_of(file));
  return call.fails() ? -1 : syscall(SYS_writev, file, pieces, count);
}

// Flushing matters only for power cuts.
#define ON_FILE(name)                                 \
  int name(int file) {                                \
    Call call(#name, is_inside ? "" : path_of(file)); \
    return call.fails() ? -1 : 0;                     \
  }
ON_FILE(fsync)
ON_FILE(fdatasync)
ON_FILE(syncfs)

int ftruncate64(int file, off64_t size) noexcept {
  Call call("truncate", is_inside ? "" : path_of(file));
  return call.fails() ? -1 : static_cast<int>(syscall(SYS_ftruncate, file, size));
}
int ftruncate(int file, off_t size) noexcept { return ftruncate64(file, size); }
int truncate64(const char* path, off64_t size) noexcept {
  Call call("truncate", path_of(AT_FDCWD, path));
  return call.fails() ? -1 : static_cast<int>(syscall(SYS_truncate, path, size));
}
int truncate(const char* path, off_t size) noexcept { return truncate64(path, size); }

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  Call call("rename", path_of(to_folder, to), path_of(from_folder, from));
  return call.fails()
             ? -1
             : static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return renameat2(from_folder, from, to_folder, to, 0);
}
int rename(const char* from, const char* to) noexcept {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  Call call("link", path_of(to_folder, to));
  return call.fails()
             ? -1
             : static_cast<int>(syscall(SYS_linkat, from_folder, from, to_folder, to, flags));
}
int link(const char* from, const char* to) noexcept {
  return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int symlink(const char* target, const char* path) noexcept {
  Call call("symlink", path_of(AT_FDCWD, path));
  return call.fails() ? -1 : static_cast<int>(syscall(SYS_symlinkat, target, AT_FDCWD, path));
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  Call call("remove", path_of(folder, path));
  return call.fails() ? -1 : static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}
int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  struct stat facts {};
  const bool is_folder = lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
  return unlinkat(AT_FDCWD, path, is_folder ? AT_REMOVEDIR : 0);
}
int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  Call call("mkdir", path_of(folder, path));
  return call.fails() ? -1 : static_cast<int>(syscall(SYS_mkdirat, folder, path, mode));
}
int mkdir(const char* path, mode_t mode) noexcept { return mkdirat(AT_FDCWD, path, mode); }

int flock(int file, int operation) {
  const char* const error = std::getenv("NO_FLOCK");
  if (error && !is_inside) {
    errno = std::atoi(error);
    return -1;
  }
  return static_cast<int>(syscall(SYS_flock, file, operation));
}
}
