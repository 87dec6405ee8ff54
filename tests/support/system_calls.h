#pragma once

#include <string>
#include <vector>

/// What the tests' own program asks the system for, seen where it is asked: open(2), fsync(2) and
/// flock(2) of this program are defined in system_calls.cpp, which passes them on. For promises
/// that show nowhere else, such as that of fsync.
///
///   const WatchedCalls calls;
///   disk().sync(file);
///   EXPECT_THAT(calls.flushed(), ElementsAre("/tmp/a"));
class WatchedCalls {
 public:
  struct Opened {
    std::string path;
    int flags;
  };

  /// From here to its end; one at a time.
  WatchedCalls();
  ~WatchedCalls();
  WatchedCalls(const WatchedCalls&) = delete;
  WatchedCalls& operator=(const WatchedCalls&) = delete;

  const std::vector<Opened>& opened() const { return opened_; }
  /// The files and folders that were flushed, by their paths at that moment.
  const std::vector<std::string>& flushed() const { return flushed_; }
  /// The flags that `path` was last opened with; 0 where it was not.
  int flags_of(const std::string& path) const;

  /// The next `count` calls of flock, but for the first `after` of them, find that somebody else
  /// holds the lock.
  void refuse_locks(int count, int after = 0) { locks_to_refuse_ = count, locks_to_grant_ = after; }
  /// There are no locks here: what flock(2) says of every file from here on.
  void break_locks() { has_no_locks_ = true; }

  /// From here on no file can be made: what open(2) says, as errno.
  void fail_new_files(int error) { new_file_error_ = error; }

  bool has_no_locks() const { return has_no_locks_; }
  int new_file_error() const { return new_file_error_; }
  bool refuses_lock() {
    if (locks_to_grant_ > 0 && locks_to_grant_-- > 0) return false;
    return locks_to_refuse_ > 0 && locks_to_refuse_-- > 0;
  }
  void see_open(const char* path, int flags) { opened_.push_back({path, flags}); }
  void see_fsync(int file);

 private:
  std::vector<Opened> opened_;
  std::vector<std::string> flushed_;
  int locks_to_refuse_ = 0, locks_to_grant_ = 0;
  bool has_no_locks_ = false;
  int new_file_error_ = 0;
};
