#include <nlohmann/json.hpp>

#include "runner/cli/commands/doctor.h"
#include "runner/disk/installation.h"
#include "runner/run/supervise.h"

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

ExitCode check_memory(Console& console) {
  const auto worker = find_worker(own_executable());
  if (!worker) return report(console, worker.errors());
  const auto answer = ask_worker({.program = *worker}, {{"protocol", kProtocolVersion}, {"request", "check_memory"}});
  if (!answer) return report(console, answer.errors());
  if (console.json) console.out << answer->dump(2) << '\n';
  else print_checks(console.out, *answer);
  return answer->at("passed").get<bool>() ? ExitCode::kDone : ExitCode::kRunFailed;
}

}  // namespace runner
