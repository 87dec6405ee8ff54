#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/disk/descriptor.h"

namespace stages {

/// How a reader is started: `interpreter script`.
struct ReaderProgram {
  std::string interpreter, script;
};

/// A reader has ended, or does not answer in time. what() says how: "was killed by signal 9".
struct ReaderLost : std::runtime_error {
  ReaderLost(const std::string& how, std::string advice)
      : std::runtime_error(how), help(std::move(advice)) {}
  std::string help;
};

/// A Python process that makes the user's data sets and reads their samples
/// (retort_host/reader.py). It has a stream of its own for replies; what it prints goes where this
/// process's output goes. It sees no GPU, computes with one thread and hashes texts alike in every
/// reader. It ends with this object, or when this process ends.
///
///   reader.send({{"do", "sample"}, …});
///   const ReaderProcess::Reply reply = reader.reply(timeout);
///   reader.receive(tensor.data_ptr(), reply.bytes);
class ReaderProcess {
 public:
  /// Throws std::system_error if it cannot be started.
  explicit ReaderProcess(const ReaderProgram& program);
  ~ReaderProcess();
  ReaderProcess(const ReaderProcess&) = delete;
  ReaderProcess& operator=(const ReaderProcess&) = delete;

  /// Sends a request. Each has one reply.
  void send(const nlohmann::ordered_json& request);

  struct Reply {
    bool has_failed = false;  ///< what follows says why
    std::size_t bytes = 0;    ///< to be received
  };
  /// Waits for the reply to the last request; without a limit as long as it takes. This and
  /// receive() throw ReaderLost, and runner::Cancelled once this worker is to stop and the reader
  /// does not answer soon.
  Reply reply(std::optional<std::chrono::seconds> limit);
  /// The next bytes of the reply, within the same limit.
  void receive(void* to, std::size_t bytes);

 private:
  [[noreturn]] void report_lost();
  void wait_for_bytes();
  bool has_ended();

  pid_t pid_ = 0;   // 0: it has ended, as status_ says
  int status_ = 0;  // of waitpid()
  runner::Descriptor requests_, replies_;
  runner::Descriptor own_life_;  // closes when this process ends, which ends the reader
  std::optional<std::chrono::seconds> limit_;
  std::chrono::steady_clock::time_point asked_;
};

}  // namespace stages
