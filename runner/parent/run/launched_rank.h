#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/protocol/meeting.h"

namespace runner {

/// One of several processes started by a launcher with the same command, on one or more machines.
/// Each process is a rank of the same run.
///
///   torchrun --nproc-per-node 2 --no-python retort run classify
///   srun --ntasks 4 retort run classify
struct LaunchedRank {
  std::string launcher;  ///< "torchrun", "srun", "mpirun", "the launcher (WORLD_SIZE)"
  int rank = 0;
  int size = 1;  ///< the number of ranks
  Meeting meeting;
};

/// Returns the value of an environment variable; nullopt if it is unset or empty.
using LauncherVariable = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> launcher_variable(const char* name);

/// Reads the variables set by a launcher; nullopt if this is the only process. Uses the first of
/// these launchers that reports more than one process:
///
///   RANK, WORLD_SIZE               torchrun, and scripts that follow PyTorch's convention
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS           srun
///   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE   mpirun (Open MPI)
///   PMI_RANK, PMI_SIZE                           mpirun (MPICH, Intel MPI)
///
/// MASTER_ADDR and MASTER_PORT are the address and port of rank 0; RETORT_MEETING_SECONDS is how
/// long a rank waits for the others (600). kNoMeeting if variables are missing, not numbers, or
/// contradictory.
Result<std::optional<LaunchedRank>> launched_rank(
    const LauncherVariable& variable = launcher_variable);

/// Returns the variables with a rank in them: a process that has none of them is not a rank.
std::vector<std::string> rank_variables();

/// Returns the first machine in a Slurm node list: "node08" for "node[08-11,14],gpu3".
std::string first_of_nodes(const std::string& nodes);

}  // namespace runner
