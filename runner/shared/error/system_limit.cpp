#include "runner/shared/error/system_limit.h"

#include <cerrno>
#include <filesystem>
#include <new>

#include "runner/shared/error/stage_error.h"

namespace runner {
namespace {

bool is_any_of(const std::error_code& code, std::initializer_list<std::errc> errors) {
  for (const std::errc one : errors)
    if (code == one) return true;
  return false;
}

}  // namespace

std::optional<Diagnostic> limit_reached(const std::error_code& code, const std::string& doing) {
  const std::string where = doing.empty() ? "" : " (" + doing + ")";
  if (is_any_of(code, {std::errc::too_many_files_open, std::errc::too_many_files_open_in_system}))
    return Diagnostic{ErrorCode::kCannotCreate,
                      {},
                      "",
                      "too many files are open" + where,
                      "raise the limit on open files: `ulimit -n 1024`"};
  if (code == std::errc::resource_unavailable_try_again)
    return Diagnostic{
        ErrorCode::kDeviceUnavailable,
        {},
        "",
        "the system cannot start more processes or threads" + where,
        "close other programs, or raise the limit: `ulimit -u`, or pids.max of the container"};
  if (code == std::errc::not_enough_memory)
    return Diagnostic{
        ErrorCode::kOutOfMemory,
        {},
        "",
        "the system is out of memory" + where,
        "close other programs, or raise the limit: `ulimit -v`, or the container's limit"};
  if (code == std::errc::no_space_on_device || code.value() == EDQUOT)
    return Diagnostic{ErrorCode::kDiskFull,
                      {},
                      "",
                      doing.empty() ? "the disk is full" : doing,
                      "free up space, then run again"};
  return std::nullopt;
}

Diagnostic unexpected(const std::exception& error) {
  if (const auto* known = dynamic_cast<const StageError*>(&error))
    return {known->code, {}, known->option, known->what(), known->help};
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return *limit_reached(std::make_error_code(std::errc::not_enough_memory), "");
  if (const auto* of_system = dynamic_cast<const std::system_error*>(&error)) {
    if (auto limit = limit_reached(of_system->code(), of_system->what())) return *std::move(limit);
    if (const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
      const bool has_name = !of_file->path1().empty();
      return {ErrorCode::kCannotCreate,
              {},
              "",
              has_name ? "'" + of_file->path1().string() + "': " + of_file->code().message()
                       : of_file->what(),
              has_name ? "check that it exists and that you have access to it"
                       : "set TMPDIR to a folder that exists"};
    }
  }
  return {ErrorCode::kInternal, {}, "", error.what(), "this is a bug in Retort"};
}

}  // namespace runner
