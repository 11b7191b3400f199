#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12: slurmctld, slurmd, slurm-client), 2026-11-28.
# Each task of a job array has a number of its own (squeue %A, SLURM_JOB_ID), but one has the array's. Once that one was
# cancelled, `scancel NUMBER` of another task, which squeue lists as running, prints nothing, exits with 0 and ends
# nothing (with -v: "Invalid job id specified"); `scancel ARRAY_TASK` (squeue %i) ends it. While all run, `scancel NUMBER`
# with the array's number ends them all.
# One guesses that a number of squeue names that one task, and that a scancel without effect says so.
# Seen: all three lines that begin with "as stated".
# It needs root and these packages installed; it starts a controller and a node of its own.
set -euo pipefail
slurmctld -V | grep -q '22\.05\.8' || { echo "this is $(slurmctld -V)"; exit 1; }
D=$(mktemp -d); chmod 755 "$D"; mkdir "$D"/{state,spool,log}; H=$(hostname -s)
read -r P1 P2 < <(python3 -c 'import socket; all=[socket.create_server(("127.0.0.1", 0)) for _ in "12"]; print(*(s.getsockname()[1] for s in all))')
cat >"$D/slurm.conf" <<C
ClusterName=finding
SlurmctldHost=$H(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort=$P1
SlurmdPort=$P2
SlurmctldPidFile=$D/ctld.pid
SlurmdPidFile=$D/d.pid
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
KillWait=2
NodeName=finding NodeHostname=$H NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=p Nodes=finding Default=YES MaxTime=INFINITE State=UP
C
: >"$D/cgroup.conf"
export SLURM_CONF=$D/slurm.conf
cd "$D"
slurmctld -D >"$D/log/ctld" 2>&1 & C=$!
slurmd -D -N finding >"$D/log/d" 2>&1 & S=$!
trap 'for job in $(squeue -h -o %i); do scancel "$job"; done; sleep 5; kill $S $C; wait || true; rm -rf "$D"' EXIT
for _ in $(seq 100); do timeout 5 sinfo -h -o %T 2>/dev/null | grep -q idle && break; sleep 0.5; done
running() { squeue -h -t R -o '%A %i' | sort; }
until_running() { for _ in $(seq 120); do [ "$(running | wc -l)" = "$1" ] && return; sleep 0.5; done; running; exit 1; }
array=$(sbatch --parsable --array=0-1 -n1 -o /dev/null --wrap 'sleep 600')
until_running 2
running
own=$(running | awk -v a="$array" '$1 == a {print $2}')
read -r number task < <(running | awk -v a="$array" '$1 != a')
scancel "$own"
until_running 1
code=0; error=$(scancel "$number" 2>&1) || code=$?
sleep 5
[ "$(running)" = "$number $task" ] && [ "$code" = 0 ] && [ -z "$error" ] || { echo "by number: $code $error; $(running)"; exit 1; }
echo "as stated: scancel $number exits with $code, and $task runs on"
scancel "$task"
until_running 0
echo "as stated: scancel $task ended it"
array=$(sbatch --parsable --array=0-1 -n1 -o /dev/null --wrap 'sleep 600')
until_running 2
running
scancel "$array"
until_running 0
echo "as stated: scancel $array, a number of one of them, ended both"
