#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12: slurmctld, slurmd, slurm-client), 2026-11-28.
# A job's gres index (SLURM_JOB_GPUS, IDX of scontrol) is no position in gres.conf: types are in the order of slurm.conf,
# and of one type all lines that begin with Name precede those that begin with NodeName, wherever they are in the file.
# gres.conf(5) calls File the device of a resource; one guesses that the first line is index 0. `slurmd -G` has the order.
# Seen: both lines that begin with "as stated".
# It needs root and these packages installed; it starts a controller and a node of its own.
set -euo pipefail
slurmctld -V | grep -q '22\.05\.8' || { echo "this is $(slurmctld -V)"; exit 1; }
D=$(mktemp -d); chmod 755 "$D"; mkdir "$D"/{state,spool,log,dev}; H=$(hostname -s)
for file in 0 1 2; do ln -s /dev/null "$D/dev/gpu$file"; done
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
GresTypes=gpu
NodeName=finding NodeHostname=$H NodeAddr=127.0.0.1 CPUs=8 Gres=gpu:new:2,gpu:old:1 State=UNKNOWN
PartitionName=p Nodes=finding Default=YES MaxTime=INFINITE State=UP
C
cat >"$D/gres.conf" <<C
NodeName=finding Name=gpu Type=old File=$D/dev/gpu0
NodeName=finding Name=gpu Type=new File=$D/dev/gpu1
Name=gpu Type=new File=$D/dev/gpu2
C
: >"$D/cgroup.conf"
export SLURM_CONF=$D/slurm.conf
cd "$D"
order=$(slurmd -N finding -G 2>&1 | sed -n "s|.*Gres Name=gpu Type=\([a-z]*\) .*File=$D/dev/\([a-z0-9]*\).*|\1:\2|p" | xargs)
[ "$order" = "new:gpu2 new:gpu1 old:gpu0" ] || { echo "slurmd -G lists $order"; exit 1; }
echo "as stated: slurmd -G lists $order"
slurmctld -D >"$D/log/ctld" 2>&1 & C=$!
slurmd -D -N finding >"$D/log/d" 2>&1 & S=$!
trap 'kill $S $C; wait || true; rm -rf "$D"' EXIT
for _ in $(seq 100); do timeout 5 sinfo -h -o %T 2>/dev/null | grep -q idle && break; sleep 0.5; done
job=$(sbatch --parsable --gres=gpu:old:1 -n1 -o "$D/log/job" --wrap 'echo $SLURM_JOB_GPUS')
for _ in $(seq 120); do [ "$(squeue -h -t all -j "$job" -o %T)" = COMPLETED ] && break; sleep 0.5; done
[ "$(cat "$D/log/job")" = 2 ] || { echo "the job has index $(cat "$D/log/job")"; exit 1; }
echo "as stated: the only GPU of type old, first in gres.conf, is index 2"
