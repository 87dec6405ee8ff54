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

/// The command that starts a reader: `interpreter script`.
struct ReaderProgram {
  std::string interpreter, script;
};

/// Thrown if a reader has exited or does not answer in time. what() says what happened, as in "was
/// killed by signal 9".
struct ReaderLost : std::runtime_error {
  ReaderLost(const std::string& how, std::string advice)
      : std::runtime_error(how), help(std::move(advice)) {}
  std::string help;
};

/// A Python process that creates the user's datasets and reads their samples
/// (retort_host/reader.py). Replies have their own pipe; anything the process prints goes to this
/// process's output. The process sees no GPU, computes with one thread, and hashes strings in the
/// same way as all other readers. It is killed when this object is destroyed or this process exits.
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

  /// Sends a request. Each request gets one reply.
  void send(const nlohmann::ordered_json& request);

  struct Reply {
    bool has_failed = false;  ///< the bytes describe the failure
    std::size_t bytes = 0;    ///< number of bytes to receive
  };
  /// Waits for the reply to the last request, for at most `limit` if it is set. This and receive()
  /// throw ReaderLost. They throw runner::Canceled if the worker must stop and the reader does not
  /// answer soon.
  Reply reply(std::optional<std::chrono::seconds> limit);
  /// Receives the next bytes of the reply, within the same limit.
  void receive(void* to, std::size_t bytes);

 private:
  [[noreturn]] void report_lost();
  void wait_for_bytes();
  bool has_ended();

  pid_t pid_ = 0;   // 0 once the process has exited, with status_
  int status_ = 0;  // from waitpid()
  runner::Descriptor requests_, replies_;
  runner::Descriptor own_life_;  // closes when this process exits, which kills the reader
  std::optional<std::chrono::seconds> limit_;
  std::chrono::steady_clock::time_point asked_;
};

}  // namespace stages
