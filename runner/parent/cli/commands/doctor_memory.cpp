#include <nlohmann/json.hpp>

#include "runner/parent/cli/commands/doctor.h"
#include "runner/shared/disk/installation.h"
#include "runner/parent/run/ask_worker.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

void print_checks(std::ostream& out, const Json& answer) {
  std::size_t width = 0, passed = 0;
  const Json& checks = answer.at("checks");
  for (const Json& check : checks) width = std::max(width, check.at("name").get_ref<const std::string&>().size());
  for (const Json& check : checks) {
    const std::string name = check.at("name");
    const bool is_passed = check.at("passed");
    passed += is_passed;
    out << (is_passed ? "PASS  " : "FAIL  ") << name << std::string(width - name.size() + 2, ' ')
        << check.at("found").get_ref<const std::string&>() << '\n';
  }
  out << passed << " of " << checks.size() << " mechanisms work\n";
}

}  // namespace

ExitCode check_memory(const LogFlags& log, Console& console) {
  const auto worker = log.worker();
  if (!worker) return report(console, worker.errors());
  ProgressDisplay display(console.err, standard_error_display(console.verbosity));
  const auto answer = ask_worker(*worker, {{"protocol", kProtocolVersion}, {"request", "check_memory"}},
                                 shown_conversation(display, "doctor"));
  if (!answer) return report(console, answer.errors());
  if (console.json) print_result(console, "doctor_memory/1", *answer);
  else print_checks(console.out, *answer);
  return answer->at("passed").get<bool>() ? ExitCode::kDone : ExitCode::kRunFailed;
}

}  // namespace runner
