#include "runner/parent/run/launched_rank.h"

#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

namespace runner {
namespace {

constexpr int kMostRanks = 4096;  // the same limit as in the schema of device.count

/// Range of ports from which to choose one by job number, below the ports that systems assign
/// automatically.
constexpr int kFirstPort = 12000, kPorts = 20000;

Diagnostic launcher_error(std::string message, std::string help) {
  return {ErrorCode::kNoMeeting, {}, "", std::move(message), std::move(help)};
}

/// Reads a launcher's variables and collects the errors in them.
class Variables {
 public:
  explicit Variables(const LauncherVariable& variable) : variable_(variable) {}

  bool has(const char* name) const { return variable_(name).has_value(); }
  std::string text(const char* name) const { return variable_(name).value_or(""); }

  /// Returns a whole number in [least, most], or `otherwise` if the variable is not set.
  int number(const char* name, int least, int most, int otherwise) {
    const auto value = variable_(name);
    if (!value) return otherwise;
    int number = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (error == std::errc() && end == value->data() + value->size() && number >= least &&
        number <= most)
      return number;
    errors_.push_back(launcher_error("the environment variable " + std::string(name) + " is '" +
                                         *value + "', which is not a whole number from " +
                                         std::to_string(least) + " to " + std::to_string(most),
                                     "the launcher sets it; unset it to run without a launcher"));
    return otherwise;
  }

  void fail(std::string message, std::string help) {
    errors_.push_back(launcher_error(std::move(message), std::move(help)));
  }
  Diagnostics errors() && { return std::move(errors_); }
  bool is_right() const { return errors_.empty(); }

 private:
  const LauncherVariable& variable_;
  Diagnostics errors_;
};

/// The variables of one launcher.
struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* ranks_here;  // "": the launcher does not set one
};

constexpr Names kLaunchersOfRanks[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
};

/// Returns the number of tasks on this node, from Slurm's list for all nodes of the step:
/// "4(x2),3".
int tasks_of_node(const std::string& list, int node) {
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int tasks = 0, nodes = 1;
    at = std::from_chars(at, end, tasks).ptr;
    if (end - at > 2 && at[0] == '(' && at[1] == 'x') at = std::from_chars(at + 2, end, nodes).ptr;
    if (node < nodes) return tasks;
    node -= nodes;
    while (at < end && *at != ',') ++at;
    if (at < end) ++at;
  }
  return 0;
}

int port_of_job(int job, int step) {
  return kFirstPort + static_cast<int>((std::int64_t{job} * 7 + step) % kPorts);
}

/// Fills in the meeting from Slurm's variables.
void complete_by_slurm(Variables& variables, LaunchedRank& own) {
  constexpr int kAny = 2'000'000'000;
  const int job = variables.number("SLURM_JOB_ID", 0, kAny, 0);
  const int step = variables.number("SLURM_STEP_ID", 0, kAny, 0);
  const std::string restarts = variables.text("SLURM_RESTART_COUNT");
  Meeting& meeting = own.meeting;
  meeting.job = "Slurm's " + std::to_string(job) + '.' + std::to_string(step) +
                (restarts.empty() ? "" : ", restart " + restarts);
  if (meeting.host.empty()) {
    std::string nodes = variables.text("SLURM_STEP_NODELIST");
    if (nodes.empty()) nodes = variables.text("SLURM_JOB_NODELIST");
    meeting.host = first_of_nodes(nodes);
  }
  if (meeting.port == 0) meeting.port = port_of_job(job, step);
  const int node = variables.number("SLURM_NODEID", 0, kMostRanks, 0);
  const int tasks = tasks_of_node(variables.text("SLURM_STEP_TASKS_PER_NODE"), node);
  meeting.ranks_here = tasks > 0 ? tasks : own.size;
  meeting.cores = variables.number("SLURM_CPUS_PER_TASK", 1, 1 << 20, 0);
}

/// Fills in the meeting for mpirun, which sets no variables that name other machines.
void complete_by_mpi(Variables& variables, LaunchedRank& own) {
  Meeting& meeting = own.meeting;
  if (meeting.ranks_here == own.size && meeting.host.empty()) meeting.host = "127.0.0.1";
  meeting.job = variables.text("PMIX_NAMESPACE");
  if (meeting.port == 0)
    meeting.port = kFirstPort + static_cast<int>(std::hash<std::string>()(meeting.job) % kPorts);
}

void complete_by_torchrun(Variables& variables, LaunchedRank& own) {
  Meeting& meeting = own.meeting;
  if (!variables.has("TORCHELASTIC_RUN_ID")) own.launcher = "the launcher (WORLD_SIZE)";
  meeting.is_served = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  meeting.job = variables.text("TORCHELASTIC_RUN_ID");
  const std::string restarts = variables.text("TORCHELASTIC_RESTART_COUNT");
  if (!restarts.empty() && restarts != "0") meeting.job += ", restart " + restarts;
}

void require_address(Variables& variables, const LaunchedRank& own) {
  if (own.meeting.host.empty())
    variables.fail(own.launcher + " has started " + std::to_string(own.size) +
                       " ranks, but MASTER_ADDR, the machine of rank 0, is not set",
                   "set MASTER_ADDR to its name or address on all ranks");
  if (own.meeting.port == 0)
    variables.fail(own.launcher + " has started " + std::to_string(own.size) +
                       " ranks, but MASTER_PORT, the port of rank 0, is not set",
                   "set MASTER_PORT on all ranks to a free port of rank 0's machine");
}

}  // namespace

std::optional<std::string> launcher_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

std::vector<std::string> rank_variables() {
  std::vector<std::string> variables;
  for (const Names& names : kLaunchersOfRanks) variables.emplace_back(names.rank);
  return variables;
}

std::string first_of_nodes(const std::string& nodes) {
  const std::size_t end = nodes.find_first_of(",[");
  std::string first = nodes.substr(0, end);
  if (end == nodes.npos || nodes[end] == ',') return first;
  // The first number in the brackets, with its leading zeros.
  const std::size_t after = nodes.find_first_of(",-]", end);
  first += nodes.substr(end + 1, after == nodes.npos ? after : after - end - 1);
  const std::size_t closed = nodes.find(']', end);
  if (closed == nodes.npos) return first;
  const std::size_t next = nodes.find(',', closed);
  return first + nodes.substr(closed + 1, next == nodes.npos ? next : next - closed - 1);
}

Result<std::optional<LaunchedRank>> launched_rank(const LauncherVariable& variable) {
  Variables variables(variable);
  for (const Names& names : kLaunchersOfRanks) {
    if (!variables.has(names.rank) || !variables.has(names.size)) continue;
    LaunchedRank own{.launcher = names.launcher};
    own.size = variables.number(names.size, 1, kMostRanks, 1);
    own.rank = variables.number(names.rank, 0, kMostRanks - 1, 0);
    if (!variables.is_right()) return std::move(variables).errors();
    if (own.size == 1) continue;
    if (own.rank >= own.size)
      variables.fail(std::string(names.rank) + " is " + std::to_string(own.rank) + ", but " +
                         names.size + " is " + std::to_string(own.size),
                     "ranks are numbered from 0; unset both to run without a launcher");
    own.meeting.host = variables.text("MASTER_ADDR");
    own.meeting.port = variables.number("MASTER_PORT", 1, 65535, 0);
    own.meeting.seconds = variables.number("RETORT_MEETING_SECONDS", 1, 1'000'000, 600);
    own.meeting.ranks_here = own.size;
    if (*names.ranks_here)
      own.meeting.ranks_here = variables.number(names.ranks_here, 1, own.size, own.size);
    if (own.launcher == "srun") complete_by_slurm(variables, own);
    else if (own.launcher == "mpirun") complete_by_mpi(variables, own);
    else complete_by_torchrun(variables, own);
    require_address(variables, own);
    if (!variables.is_right()) return std::move(variables).errors();
    return std::optional(std::move(own));
  }
  if (!variables.is_right()) return std::move(variables).errors();
  return std::optional<LaunchedRank>();
}

}  // namespace runner
