#include "runner/parent/report/picture_folder.h"

#include "runner/shared/disk/new_file.h"

namespace runner {
namespace {

/// What is advised for runs, in the words of who draws.
[[noreturn]] void cannot_draw(Diagnostic error) {
  constexpr std::string_view kOfRuns = "run.dir";
  const std::size_t at = error.help.find(kOfRuns);
  if (at != error.help.npos) error.help.replace(at, kOfRuns.size(), "--out");
  throw WriteError(error);
}

}  // namespace

PictureFolder::PictureFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) cannot_draw(write_diagnostic(folder_, error.value(), ErrorCode::kCannotCreate));
}

void PictureFolder::write(const std::string& name, std::string_view svg) {
  try {
    write_atomically(folder_ / name, svg);
  } catch (const WriteError& error) {
    cannot_draw(error.diagnostic());
  }
  written_.push_back((folder_ / name).string());
}

}  // namespace runner
