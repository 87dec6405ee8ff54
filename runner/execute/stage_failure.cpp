#include "runner/execute/stage_failure.h"

#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "runner/stage/determinism.h"
#include "runner/stage/stage.h"

namespace runner {
namespace {

/// A LibTorch exception carries a C++ backtrace in its text: the first line is for the user, the rest for the log,
/// which is where the worker's stderr goes.
std::string first_line_logging_rest(const char* what) {
  const std::string_view text = what;
  const std::size_t end = std::min(text.find('\n'), text.size());
  if (end < text.size()) std::fprintf(stderr, "%s\n", what);
  return std::string(text.substr(0, end));
}

/// LibTorch's own exception types cannot be named here, so its texts must do.
bool says_out_of_memory(std::string_view what) {
  return what.find("out of memory") != what.npos || what.find("can't allocate memory") != what.npos;
}

Diagnostic out_of_memory(const Node& node, const std::string& detail) {
  return {ErrorCode::kOutOfMemory,
          {},
          node.pointer,
          "out of memory" + (detail.empty() ? "" : ": " + detail),
          "use a smaller memory.micro_batch, train.batch_size or model"};
}

Diagnostic not_deterministic(const Node& node, const std::string& operation) {
  return {ErrorCode::kNotDeterministic,
          {},
          node.pointer,
          nondeterminism_text(operation) + " on this device",
          "determinism: warn continues with a warning, determinism: off continues; device=cpu has such a form of most"};
}

}  // namespace

Diagnostic stage_failure(const Node& node) {
  try {
    throw;
  } catch (const StageError& error) {
    const std::string& stage = error.stage.empty() ? node.pointer : error.stage;
    return {error.code, {}, stage + error.option, error.what(), error.help};
  } catch (const std::bad_alloc&) {
    return out_of_memory(node, "");
  } catch (const std::system_error& error) {
    const bool is_full = error.code() == std::errc::no_space_on_device;
    return {is_full ? ErrorCode::kDiskFull : ErrorCode::kStageFailed,
            {},
            node.pointer,
            first_line_logging_rest(error.what()),
            is_full ? "make room, then run again" : ""};
  } catch (const std::exception& error) {
    const std::string line = first_line_logging_rest(error.what());
    constexpr std::string_view kSaid = "out of memory: ";
    if (says_out_of_memory(line)) return out_of_memory(node, line.substr(line.starts_with(kSaid) ? kSaid.size() : 0));
    if (const auto operation = nondeterministic_operation(line)) return not_deterministic(node, *operation);
    return {ErrorCode::kStageFailed, {}, node.pointer, line, ""};
  } catch (...) {
    return {ErrorCode::kStageFailed, {}, node.pointer, "an exception of unknown type", ""};
  }
}

}  // namespace runner
