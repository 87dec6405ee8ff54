#pragma once

#include <filesystem>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/stage_error.h"

namespace runner {

/// A file or folder that could not be written: kDiskFull, kCannotCreate or kCannotWrite. Of a stage, it is the stage's.
struct WriteError : StageError {
  explicit WriteError(const Diagnostic& diagnostic)
      : StageError(StageError(diagnostic.code, diagnostic.message).at(diagnostic.pointer).with_help(diagnostic.help)) {}
  Diagnostic diagnostic() const { return {code, {}, option, what(), help}; }
};

/// The error for `path` by errno: a full disk or quota is kDiskFull, anything else `otherwise`.
Diagnostic write_diagnostic(const std::filesystem::path& path, int error, ErrorCode otherwise);

}  // namespace runner
