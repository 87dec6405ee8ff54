#!/usr/bin/env bash
# A Slurm cluster on this machine only, on loopback, for tests.
#
#   slurm_cluster.sh start DIR [LINE…]   starts it with its files in DIR, and these further lines of slurm.conf; prints
#                                        SLURM_CONF=…, which the commands need in their environment
#   slurm_cluster.sh stop DIR            ends it and what runs in it
#
# Exits with 77 if Slurm is not installed (apt-get install --no-install-recommends slurmctld slurmd slurm-client), or if
# this is not root.
set -euo pipefail

action="$1"
dir="$2"
shift 2

# Returns when they have ended and no longer write anything.
stop() {
  local pid file pids=()
  for file in state/ctld.pid state/d.pid; do
    pid=$(cat "$dir/$file" 2>/dev/null || true)
    if [ -n "$pid" ]; then pids+=("$pid"); fi
  done
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do
    for _ in $(seq 100); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
  done
}

start() {
  local host plugins port i
  for i in slurmctld slurmd sbatch squeue scontrol; do
    command -v "$i" >/dev/null || { echo "there is no $i" >&2; exit 77; }
  done
  [ "$(id -u)" = 0 ] || { echo "slurmd must be started by root" >&2; exit 77; }
  plugins=$(dirname "$(find /usr/lib -name auth_none.so -path '*slurm*' -print -quit)")
  [ "$plugins" != . ] || { echo "Slurm's plugin auth/none is missing" >&2; exit 77; }
  mkdir -p "$dir"/{state,spool,log}
  host=$(hostname -s)
  port=$((20000 + RANDOM % 20000))
  cat >"$dir/slurm.conf" <<EOF
ClusterName=lab
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
SlurmUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/state/ctld.pid
SlurmdPidFile=$dir/state/d.pid
SlurmctldLogFile=$dir/log/ctld.log
SlurmdLogFile=$dir/log/d.log
PluginDir=$plugins
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmctldParameters=preempt_send_user_signal
ReturnToService=2
KillWait=5
MinJobAge=600
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 RealMemory=4000 State=UNKNOWN
PartitionName=low Nodes=$host Default=YES MaxTime=60 State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=high Nodes=$host MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
EOF
  for i in "$@"; do echo "$i" >>"$dir/slurm.conf"; done
  export SLURM_CONF="$dir/slurm.conf"
  slurmctld -f "$SLURM_CONF"
  slurmd -f "$SLURM_CONF" -N "$host"
  for ((i = 0; i < 60; ++i)); do
    if [ "$(sinfo -h -p low -o %t 2>/dev/null)" = idle ]; then
      echo "SLURM_CONF=$SLURM_CONF"
      return
    fi
    sleep 1
  done
  tail -n 20 "$dir"/log/*.log >&2
  stop
  exit 1
}

"$action" "$@"
