#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/protocol/meeting.h"

namespace runner {

/// This process as one of several that a launcher has started with the same command, on one
/// machine or on many: each is a rank of one run.
///
///   torchrun --nproc-per-node 2 --no-python retort run classify
///   srun --ntasks 4 retort run classify
struct LaunchedRank {
  std::string launcher;  ///< "torchrun", "srun", "mpirun", "the launcher (WORLD_SIZE)"
  int rank = 0;
  int size = 1;  ///< the number of ranks
  Meeting meeting;
};

/// The value of an environment variable; nullopt if it is not set or empty.
using LauncherVariable = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> launcher_variable(const char* name);

/// What the launcher's variables say; nullopt if there is one process alone. The first of these
/// that says that there are several counts:
///
///   RANK, WORLD_SIZE               torchrun, and scripts that set them as PyTorch asks
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS           srun
///   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE   mpirun of Open MPI
///   PMI_RANK, PMI_SIZE                           mpirun of MPICH and Intel MPI
///
/// MASTER_ADDR and MASTER_PORT say where rank 0 is met; RETORT_MEETING_SECONDS how long a rank
/// waits for the others (600). kNoMeeting for what is missing, and for values that are not numbers
/// or contradict each other.
Result<std::optional<LaunchedRank>> launched_rank(
    const LauncherVariable& variable = launcher_variable);

/// The first machine of a list as Slurm writes it: "node[08-11,14],gpu3" begins with "node08".
std::string first_of_nodes(const std::string& nodes);

}  // namespace runner
