#include "stages/fetch/download.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "runner/shared/http/http.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/units.h"
#include "stages/fetch/partial_file.h"

namespace stages {

std::string sum_of_file(const std::filesystem::path& file, const Checksum& like,
                        const std::function<void(std::int64_t bytes)>& step) {
  runner::Digest digest(like.kind);
  if (like.is_git_blob) {
    std::error_code ignored;  // update_from() reports the same error
    const std::string head = "blob " + std::to_string(std::filesystem::file_size(file, ignored));
    digest.update({head.c_str(), head.size() + 1});
  }
  if (const int error = digest.update_from(file, step)) {
    throw runner::StageError(runner::ErrorCode::kMissingFile,
                             "cannot read '" + file.string() + "': " + std::strerror(error));
  }
  return digest.finish();
}

bool is_passing_status(int status) {
  return status == 408 || status == 425 || status == 429 || status == 500 ||
         (status >= 502 && status <= 504);
}

void wait_out(const std::string& why, double seconds, const Patience& patience,
              const FetchCallbacks& callbacks) {
  if (callbacks.say)
    callbacks.say(why + "; trying again in " + std::to_string(std::lround(std::ceil(seconds))) +
                  " s");
  if (patience.wait) return patience.wait(seconds);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    stop_if_canceled(callbacks);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

namespace {

namespace fs = std::filesystem;
using runner::ErrorCode;
using runner::StageError;

/// A transient server failure.
struct PassingFailure : std::runtime_error {
  explicit PassingFailure(const std::string& what, double wait = 0)
      : std::runtime_error(what), wait(wait) {}
  double wait;  // the wait in seconds that the server requests
};

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string header(const runner::HttpReply& reply, std::string_view name) {
  const auto found = reply.headers.find(name);
  return found == reply.headers.end() ? "" : found->second;
}

/// Returns a string that identifies the version of the file on the server: a strong ETag or,
/// failing that, a date.
std::string validator_of(const runner::HttpReply& reply) {
  const std::string tag = header(reply, "etag");
  return tag.starts_with('"') ? tag : header(reply, "last-modified");
}

/// The contents of a Content-Range header: for "bytes 5-9/10", the first byte and the size of the
/// file.
struct ContentRange {
  std::int64_t begin = 0, all = 0;
};
std::optional<ContentRange> content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const std::size_t dash = text.find('-'), slash = text.find('/');
  if (dash == text.npos || slash == text.npos || dash > slash) return std::nullopt;
  const auto begin = number(text.substr(0, dash));
  if (!begin) return std::nullopt;
  return ContentRange{*begin, number(text.substr(slash + 1)).value_or(0)};
}

class Fetching {
 public:
  Fetching(const Download& what, const FetchCallbacks& callbacks, const Patience& patience,
           runner::Storage& storage)
      : what_(what),
        callbacks_(callbacks),
        patience_(patience),
        storage_(storage),
        name_(what.name.empty() ? what.file.filename().string() : what.name),
        part_(what.file, what.url, storage),
        progress_(callbacks, "download " + name_, part_.bytes(), 0) {}

  std::int64_t run() {
    try {
      fetch();
      if (what_.checksum) check();
    } catch (const runner::Canceled&) {
      if (part_.bytes() > 0) say("stopped: " + kept());
      throw;
    }
    part_.publish(what_.file);
    return received_;
  }

 private:
  void say(const std::string& line) const {
    if (callbacks_.say) callbacks_.say(line);
  }

  std::string kept() const {
    return runner::bytes_text(part_.bytes()) + (all_ > 0 ? " of " + runner::bytes_text(all_) : "") +
           " are kept in '" + part_.path().string() +
           "', and the same command continues from there";
  }

  /// Retries until the whole file has arrived, and gives up after too many consecutive failures.
  void fetch() {
    // Without a validator or checksum, the partial file may be the beginning of another file.
    if (part_.bytes() > 0 && part_.validator().empty() && !what_.checksum) part_.begin_anew();
    double wait = patience_.first_wait;
    for (int failures = 0;;) {
      const std::int64_t before = received_;
      try {
        return attempt();
      } catch (const PassingFailure& failure) {
        if (received_ > before) {  // progress was made, so the failures are not consecutive
          failures = 0;
          wait = patience_.first_wait;
        }
        if (++failures >= patience_.attempts) give_up(failure.what());
        const double now = std::clamp(failure.wait, wait, std::max(wait, patience_.longest_wait));
        wait_out(failure.what(), now, patience_, callbacks_);
        wait *= 2;
      }
    }
  }

  [[noreturn]] void give_up(const std::string& why) const {
    throw StageError(ErrorCode::kDownloadFailed, "cannot fetch '" + name_ + "': " + why)
        .with_help(part_.bytes() > 0 ? kept()
                                     : "check the network, and https_proxy if a proxy is needed");
  }

  /// Sends one request. Returns if the whole file has arrived; otherwise throws.
  void attempt() {
    runner::HttpRequest request{.url = what_.url, .token = what_.token};
    is_resuming_ = part_.bytes() > 0;
    if (is_resuming_) {
      request.headers.push_back("Range: bytes=" + std::to_string(part_.bytes()) + "-");
      if (!part_.validator().empty()) request.headers.push_back("If-Range: " + part_.validator());
    }
    has_begun_ = false;
    runner::HttpReply reply;
    try {
      reply = runner::send(
          request, {patience_.connect_seconds, patience_.stall_seconds, callbacks_.canceled},
          [this](const runner::HttpReply& answer, std::string_view bytes) { take(answer, bytes); });
    } catch (const runner::HttpError& error) {
      if (error.is_passing) throw PassingFailure(error.what());
      give_up(error.what());
    }
    // The file may be complete already; anything else is an error.
    if (reply.status == 416 && is_resuming_) {
      const std::string range = header(reply, "content-range");
      if (range == "bytes */" + std::to_string(part_.bytes())) return;
      restart("the server's '" + name_ + "' has changed");
      throw PassingFailure("the server has no bytes beyond those received");
    }
    if (reply.status != 200 && reply.status != 206) refuse(reply);
    if (!has_begun_) begin(reply);  // the file is empty
    if (all_ > 0 && part_.bytes() != all_) {
      throw PassingFailure("only " + std::to_string(part_.bytes()) + " of " + std::to_string(all_) +
                           " bytes arrived");
    }
  }

  void restart(const std::string& why) {
    if (part_.bytes() > 0) say(why + ": starting over");
    part_.begin_anew();
    is_resuming_ = false;
    was_resumed_ = false;
  }

  void take(const runner::HttpReply& reply, std::string_view bytes) {
    if (reply.status != 200 && reply.status != 206) return;  // the body of an error page
    stop_if_canceled(callbacks_);
    if (!has_begun_) begin(reply);
    part_.append(bytes);
    received_ += static_cast<std::int64_t>(bytes.size());
    progress_.at(part_.bytes());
    if (what_.bytes > 0 && part_.bytes() > what_.bytes)
      drop(ErrorCode::kDownloadFailed,
           "the server sends more than the expected " + runner::bytes_text(what_.bytes),
           "try again later, or use another server");
    if (all_ == 0) leave_room(static_cast<std::int64_t>(bytes.size()));
  }

  /// Stops before the disk is full: a server that does not announce the size may keep sending
  /// forever.
  void leave_room(std::int64_t added) {
    constexpr std::int64_t kEvery = 16 << 20;
    constexpr std::uint64_t kLeft = std::uint64_t{1} << 30;
    if (part_.bytes() / kEvery == (part_.bytes() - added) / kEvery) return;
    const fs::path folder = what_.file.parent_path();
    const auto free = storage_.free_bytes(folder.empty() ? "." : folder);
    if (free && *free < kLeft)
      drop(ErrorCode::kDiskFull,
           "the server did not state the size of the file, and after " +
               runner::bytes_text(part_.bytes()) + " the disk is nearly full",
           "free up space, or download the file by other means");
  }

  [[noreturn]] void drop(ErrorCode code, const std::string& why, const std::string& help) {
    part_.begin_anew();
    throw StageError(code, "cannot fetch '" + name_ + "': " + why).with_help(help);
  }

  /// Handles the start of a response that contains bytes of the file.
  void begin(const runner::HttpReply& reply) {
    has_begun_ = true;
    std::int64_t coming = number(header(reply, "content-length")).value_or(0);
    all_ = coming;
    if (reply.status == 206) {
      const auto range = content_range(header(reply, "content-range"));
      if (!is_resuming_ || !range || range->begin != part_.bytes()) {
        restart("the server sent a different range than requested");
        throw PassingFailure("the server sent a different range than requested");
      }
      all_ = range->all;
      was_resumed_ = true;
      say("continuing '" + name_ + "' after " + runner::bytes_text(part_.bytes()));
    } else {
      if (is_resuming_)
        restart("the server cannot continue in the middle of '" + name_ +
                "', or the file has changed");
      part_.begin_anew();
      check_room(what_.file.parent_path(), coming + what_.also_needs, storage_);
      say("fetching " + runner::shown_url(what_.url) +
          (all_ > 0 ? ", " + runner::bytes_text(all_) : ""));
      part_.note(validator_of(reply));
      part_.append("");  // creates the file, even if it is empty
    }
    if (was_resumed_) check_room(what_.file.parent_path(), coming + what_.also_needs, storage_);
    progress_.set_all(all_);
  }

  [[noreturn]] void refuse(const runner::HttpReply& reply) const {
    const std::string answer = runner::shown_url(reply.url) + ": the server responded with " +
                               std::to_string(reply.status);
    if (is_passing_status(reply.status)) {
      throw PassingFailure(answer,
                           static_cast<double>(number(header(reply, "retry-after")).value_or(0)));
    }
    if (reply.status == 401 || reply.status == 403) {
      throw StageError(ErrorCode::kNotPublished,
                       "cannot fetch '" + name_ + "': " + answer + ", not allowed")
          .with_help(what_.token_help);
    }
    if (reply.status == 404 || reply.status == 410) {
      throw StageError(ErrorCode::kNotPublished,
                       "cannot fetch '" + name_ + "': " + answer + ", not found")
          .with_help("check the address");
    }
    throw StageError(ErrorCode::kDownloadFailed, "cannot fetch '" + name_ + "': " + answer);
  }

  void check() {
    try {
      check_sum(part_.path(), name_, *what_.checksum, callbacks_);
    } catch (const StageError& error) {
      if (error.code != ErrorCode::kWrongChecksum) throw;
      if (!has_restarted_ &&
          (was_resumed_ || received_ == 0)) {  // the first part may belong to another file
        has_restarted_ = true;
        restart(error.what());
        fetch();
        return check();
      }
      part_.begin_anew();
      throw StageError(ErrorCode::kWrongChecksum,
                       "'" + name_ + "' from " + runner::shown_url(what_.url) + ": " + error.what())
          .with_help(
              "nothing was kept; fetch it again, or from another server if that does not help");
    }
  }

  const Download& what_;
  const FetchCallbacks& callbacks_;
  const Patience& patience_;
  runner::Storage& storage_;
  const std::string name_;
  PartialFile part_;
  ByteProgress progress_;
  std::int64_t all_ = 0;        // size of the whole file; 0: unknown
  std::int64_t received_ = 0;   // number of bytes received
  bool is_resuming_ = false;    // this request is for the rest of the file
  bool has_begun_ = false;      // the response to this request has begun
  bool was_resumed_ = false;    // the partial file is from more than one response
  bool has_restarted_ = false;  // after a wrong checksum
};

}  // namespace

std::int64_t download(const Download& what, const FetchCallbacks& callbacks,
                      const Patience& patience, runner::Storage& storage) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(what.file, error)) && what.checksum) {
    try {
      check_sum(what.file, what.file.filename().string(), *what.checksum, callbacks);
      return 0;
    } catch (const StageError& damaged) {
      if (storage.remove(what.file) != 0) PartialFile::cannot_write(what.file, errno);
    }
  }
  return Fetching(what, callbacks, patience, storage).run();
}

void check_sum(const fs::path& file, const std::string& name, const Checksum& checksum,
               const FetchCallbacks& callbacks) {
  std::error_code error;
  const auto all = static_cast<std::int64_t>(fs::file_size(file, error));
  ByteProgress progress(callbacks, "check " + name, 0, error ? 0 : all);
  const std::string sum = sum_of_file(file, checksum, [&](std::int64_t bytes) {
    stop_if_canceled(callbacks);
    progress.at(bytes);
  });
  if (sum == checksum.hex) return;
  throw StageError(ErrorCode::kWrongChecksum, "its " + std::string(runner::name(checksum.kind)) +
                                                  " is " + sum + " but should be " + checksum.hex);
}

void check_room(const fs::path& folder, std::int64_t bytes, runner::Storage& storage) {
  const auto free = storage.free_bytes(folder.empty() ? "." : folder);
  if (!free || bytes <= 0 || *free >= static_cast<std::uint64_t>(bytes)) return;
  throw StageError(ErrorCode::kDiskFull, "'" + folder.string() + "' has room for " +
                                             runner::bytes_text(static_cast<std::int64_t>(*free)) +
                                             ", but " + runner::bytes_text(bytes) + " are needed")
      .with_help("free up space, or choose another folder");
}

}  // namespace stages
