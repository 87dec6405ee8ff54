#include "runner/parent/run/launched_rank.h"

#include <map>
#include <string>

#include <gmock/gmock.h>

namespace runner {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

using Variables = std::map<std::string, std::string>;

Result<std::optional<LaunchedRank>> rank_by(const Variables& set) {
  return launched_rank([&](const char* name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() || found->second.empty() ? std::nullopt
                                                       : std::optional(found->second);
  });
}

LaunchedRank right(const Variables& set) {
  const auto found = rank_by(set);
  if (!found || !*found) {
    ADD_FAILURE() << (found ? "no launcher" : found.errors().front().message);
    return {};
  }
  return **found;
}

Variables with(Variables set, const Variables& more) {
  for (const auto& [name, value] : more) set[name] = value;
  return set;
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

const Variables kSrun = {{"SLURM_PROCID", "5"},
                         {"SLURM_STEP_NUM_TASKS", "7"},
                         {"SLURM_NODEID", "2"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"},
                         {"SLURM_STEP_NODELIST", "gpu[08-10]"},
                         {"SLURM_JOB_ID", "4711"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_CPUS_PER_TASK", "6"}};

TEST(LaunchedRank, SingleProcessHasNoRank) {
  for (const Variables& set :
       {Variables{}, Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, Variables{{"WORLD_SIZE", "4"}},
        Variables{{"RANK", "2"}}, Variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
        // set in the script that sbatch runs, which is not part of a step
        Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}}}) {
    const auto found = rank_by(set);
    ASSERT_TRUE(found);
    EXPECT_FALSE(*found);
  }
}

TEST(LaunchedRank, TorchrunVariablesAreRead) {
  const LaunchedRank own = right(kTorchrun);
  EXPECT_EQ(own.launcher, "torchrun");
  EXPECT_EQ(own.rank, 3);
  EXPECT_EQ(own.size, 4);
  EXPECT_EQ(own.meeting.host, "node1");
  EXPECT_EQ(own.meeting.port, 29500);
  EXPECT_EQ(own.meeting.ranks_here, 2);
  EXPECT_TRUE(own.meeting.is_served) << "torchrun's agent keeps the store";
  EXPECT_EQ(own.meeting.cores, 0);
  EXPECT_EQ(own.meeting.seconds, 600);
  EXPECT_NE(right(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "2"}})).meeting.job,
            own.meeting.job)
      << "data left in the store before a restart belongs to another job";
  EXPECT_FALSE(right(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", ""}})).meeting.is_served);
  EXPECT_EQ(right(with(kTorchrun, {{"RETORT_MEETING_SECONDS", "5"}})).meeting.seconds, 5);
}

TEST(LaunchedRank, SrunVariablesAreRead) {
  const LaunchedRank own = right(kSrun);
  EXPECT_EQ(own.launcher, "srun");
  EXPECT_EQ(own.rank, 5);
  EXPECT_EQ(own.size, 7);
  EXPECT_EQ(own.meeting.host, "gpu08");
  EXPECT_EQ(own.meeting.ranks_here, 3);
  EXPECT_EQ(own.meeting.cores, 6);
  const int port = own.meeting.port;
  EXPECT_GE(port, 1024);
  EXPECT_LE(port, 32767) << "the system assigns the ports above";
  EXPECT_EQ(right(with(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}})).meeting.port, port);
  EXPECT_EQ(right(with(kSrun, {{"SLURM_NODEID", "1"}})).meeting.ranks_here, 2);
  for (const Variables& other : {Variables{{"SLURM_STEP_ID", "1"}}, {{"SLURM_JOB_ID", "4712"}}}) {
    EXPECT_NE(right(with(kSrun, other)).meeting.port, port);
    EXPECT_NE(right(with(kSrun, other)).meeting.job, own.meeting.job);
  }
  const LaunchedRank told =
      right(with(kSrun, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "4000"}}));
  EXPECT_EQ(told.meeting.host, "10.0.0.1");
  EXPECT_EQ(told.meeting.port, 4000);
}

TEST(LaunchedRank, WorldSizeAloneLeavesTheRankToSrun) {
  EXPECT_EQ(right(with(kSrun, {{"WORLD_SIZE", "7"}})).launcher, "srun");
}

TEST(LaunchedRank, MpirunOnOneMachineNeedsNoAddress) {
  const LaunchedRank own = right({{"OMPI_COMM_WORLD_RANK", "1"},
                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                  {"PMIX_NAMESPACE", "prterun-host-77@1"}});
  EXPECT_EQ(own.launcher, "mpirun");
  EXPECT_EQ(own.meeting.host, "127.0.0.1");
  EXPECT_GT(own.meeting.port, 1024);
  EXPECT_EQ(right({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).launcher, "mpirun");
  const auto far = rank_by({{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_FALSE(far);
  ASSERT_THAT(far.errors(), SizeIs(1));
  EXPECT_EQ(far.errors().front().code, ErrorCode::kNoMeeting);
  EXPECT_THAT(far.errors().front().message, HasSubstr("MASTER_ADDR"));
}

TEST(LaunchedRank, ReportsEveryErrorAtOnce) {
  const auto missing = rank_by({{"RANK", "4"}, {"WORLD_SIZE", "4"}});
  ASSERT_FALSE(missing);
  ASSERT_THAT(missing.errors(), SizeIs(3));
  EXPECT_THAT(missing.errors()[0].message, HasSubstr("RANK is 4, but WORLD_SIZE is 4"));
  EXPECT_THAT(missing.errors()[1].message, HasSubstr("MASTER_ADDR"));
  EXPECT_THAT(missing.errors()[2].message, HasSubstr("MASTER_PORT"));
  for (const auto& [name, value] : Variables{{"RANK", "-1"},
                                             {"RANK", "1x"},
                                             {"WORLD_SIZE", "0"},
                                             {"WORLD_SIZE", "99999999999999999999"},
                                             {"MASTER_PORT", "65536"},
                                             {"LOCAL_WORLD_SIZE", "5"},
                                             {"RETORT_MEETING_SECONDS", "soon"}}) {
    const auto wrong = rank_by(with(kTorchrun, {{name, value}}));
    ASSERT_FALSE(wrong) << name;
    EXPECT_THAT(wrong.errors().front().message, AllOf(HasSubstr(name), HasSubstr(value)));
  }
}

TEST(LaunchedRank, FirstSlurmNodeIsReadFromTheNodeList) {
  const std::pair<const char*, const char*> kLists[] = {
      {"node1", "node1"},   {"node1,node2", "node1"},        {"node[08-11,14],gpu3", "node08"},
      {"node[7]", "node7"}, {"r1n[03,05]x,other", "r1n03x"}, {"", ""},
      {"node[", "node"},
  };
  for (const auto& [list, first] : kLists) EXPECT_EQ(first_of_nodes(list), first) << list;
}

}  // namespace
}  // namespace runner
