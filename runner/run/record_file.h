#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runner/descriptor.h"
#include "runner/diagnostic.h"

namespace runner {

/// A record that could not be written; `diagnostic` says which and why (kDiskFull, kCannotCreate or kCannotWrite).
struct WriteError : std::runtime_error {
  explicit WriteError(Diagnostic diagnostic)
      : std::runtime_error(diagnostic.message), diagnostic(std::move(diagnostic)) {}
  Diagnostic diagnostic;
};

/// The error for `path` by errno: a full disk or quota is kDiskFull, anything else `otherwise`.
Diagnostic write_diagnostic(const std::filesystem::path& path, int error, ErrorCode otherwise);

/// write(2), or what a test puts in its place.
using WriteSome = std::function<ssize_t(int descriptor, const char* data, std::size_t size)>;

/// A file that is made here and only ever grows. Each append is handed to the system at once, so a kill loses nothing.
class AppendFile {
 public:
  /// Makes `path`; it must not exist. Throws WriteError.
  AppendFile(std::filesystem::path path, WriteSome write);
  /// Throws WriteError.
  void append(std::string_view text);

 private:
  std::filesystem::path path_;
  WriteSome write_;
  Descriptor file_;
};

/// Writes `path` so that it holds either its old text or all of the new one, also after a power cut. Throws WriteError.
void write_atomically(const std::filesystem::path& path, std::string_view text, const WriteSome& write);

}  // namespace runner
