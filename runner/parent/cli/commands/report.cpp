#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "runner/parent/cli/command.h"
#include "runner/parent/page/document.h"
#include "runner/parent/page/recorded_document.h"
#include "runner/parent/sweep/sweep_journal.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/disk/write_error.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::string folder;  ///< the folder of a run or a sweep
  std::string out;     ///< the file to write; empty: chosen by the verb; "-": standard output
  std::string format = "html";
};

ExitCode write_report(const ReportFlags& flags, Console& console) {
  const fs::path folder = flags.folder;
  std::error_code ignored;
  const bool is_sweep = fs::exists(SweepLayout(folder).journal(), ignored);
  Diagnostics warnings;
  const auto document = is_sweep ? document_of_sweep(folder, console.sources)
                                 : document_of_run(folder, console.sources, warnings);
  if (!document) return report(console, document.errors());
  warn(console, warnings);
  const bool is_html = flags.format == "html";
  const std::string text = is_html ? html_page(*document) : markdown(*document);
  if (flags.out == "-" || (flags.out.empty() && !is_html && !console.json)) {
    console.out << text;
    return ExitCode::kDone;
  }
  const fs::path path = !flags.out.empty() ? fs::path(flags.out)
                        : is_sweep         ? SweepLayout(folder).report(is_html)
                                           : RunLayout(folder).report(is_html);
  try {
    if (!path.parent_path().empty()) make_folders(path.parent_path());
    write_atomically(path, text);
  } catch (const WriteError& error) {
    return report(console, {error.diagnostic()});
  } catch (const fs::filesystem_error& error) {
    return report(console,
                  {write_diagnostic(path, error.code().value(), ErrorCode::kCannotCreate)});
  }
  if (console.json)
    print_result(console, "report/1",
                 {{"file", path.string()}, {"format", flags.format}, {"bytes", text.size()}});
  else console.out << printable(path.string()) << "\n";
  return ExitCode::kDone;
}

Invocation declare_report() {
  const auto flags = std::make_shared<ReportFlags>();
  Invocation verb;
  verb.add({.name = "folder",
            .value = &flags->folder,
            .summary = "The folder of a run or a sweep",
            .type = "DIR",
            .required = true});
  verb.add(
      {.name = "-o,--out",
       .value = &flags->out,
       .summary =
           "Write to this file instead of report.html in the folder; '-' means standard output",
       .type = "FILE",
       .is_written = true});
  verb.add({.name = "--format",
            .value = &flags->format,
            .summary = "html: one file with charts; md: Markdown without charts, for pull requests "
                       "and model cards, on standard output unless --out is given",
            .choices = {"html", "md"},
            .shows_default = true});
  verb.run = [flags](Console& console) { return write_report(*flags, console); };
  return verb;
}

}  // namespace

const Command kReportCommand = {"report",
                                "Writes a report on a run or a sweep: one HTML file with charts, "
                                "tables and the recipe, or Markdown.",
                                "retort report outputs/2026-01-31/12-00-00", declare_report};

}  // namespace runner
