#pragma once

#include <string>
#include <vector>

/// Records system calls of the tests' own program: its open(2), fsync(2) and flock(2) are defined
/// in system_calls.cpp, which forwards them. For guarantees that are visible nowhere else, such as
/// that of fsync.
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

  /// Records during its lifetime; one at a time.
  WatchedCalls();
  ~WatchedCalls();
  WatchedCalls(const WatchedCalls&) = delete;
  WatchedCalls& operator=(const WatchedCalls&) = delete;

  const std::vector<Opened>& opened() const { return opened_; }
  /// The files and folders that were flushed, by their paths at that moment.
  const std::vector<std::string>& flushed() const { return flushed_; }
  /// The flags that `path` was last opened with; 0 if it was not opened.
  int flags_of(const std::string& path) const;

  /// Makes the next `count` calls of flock, after the first `after`, find the lock held by another
  /// process.
  void refuse_locks(int count, int after = 0) { locks_to_refuse_ = count, locks_to_grant_ = after; }
  /// Makes flock(2) report for every file that locks are unsupported.
  void break_locks() { has_no_locks_ = true; }

  /// Makes open(2) fail with this errno for every new file.
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
