//! Every table and column with its meaning, as exports and docs/records.md list them. A test holds it against the
//! databases.

#[derive(Debug, Clone, Copy)]
pub struct TableSchema {
    pub name: &'static str,
    /// The meaning of a row.
    pub about: &'static str,
    pub columns: &'static [Column],
}

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnKind,
    /// Whether it may be empty.
    pub is_optional: bool,
    /// The meaning of a value.
    pub about: &'static str,
}

assay_work::names! {
    /// The types of columns, by their names in the documentation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ColumnKind {
        /// A text; keys, ids and digests in lower-case hexadecimal.
        Text = "text",
        Json = "JSON",
        Integer = "integer",
        /// 0 or 1.
        Flag = "0 or 1",
        /// Milliseconds since 1970, UTC.
        Time = "time, ms",
        /// A floating-point number.
        Float = "float",
        /// Bytes; not in exports.
        Bytes = "bytes",
    }
}

macro_rules! tables {
    ($($table:ident $table_about:literal { $($column:ident $kind:ident $($optional:literal)? => $about:literal;)+ })+) => {
        /// Every table that records are in.
        pub const TABLES: &[TableSchema] = &[$(TableSchema {
            name: stringify!($table),
            about: $table_about,
            columns: &[$(Column {
                name: stringify!($column),
                kind: ColumnKind::$kind,
                is_optional: !concat!("" $(, $optional)?).is_empty(),
                about: $about,
            },)+],
        },)+];
    };
}

tables! {
    store "The store itself: one row." {
        id Integer => "1";
        created_ms Time => "When the store was made.";
        written_ms Time => "When a process opened it last, or found it writable again.";
        last_event Integer => "The number of the last event.";
    }
    compatibility "Which programs can use the store: one row." {
        least_schema Integer => "The oldest schema whose programs can.";
    }
    validators "A validator that uses the store." {
        key Text => "Its key.";
        instance Text => "The run of its process that sent the last heartbeat.";
        address Text => "Where miners reach it.";
        started_ms Time => "When this run began, by the database's clock.";
        heartbeat_ms Time => "When it was heard of last, by the database's clock.";
        expires_ms Time => "Until when it counts as alive, by the database's clock.";
        schema_version Integer => "The newest schema that its program knows.";
    }
    miners "A miner: a chain of keys, each proven by the one before." {
        id Text => "The first key that was seen. Every other table names the miner by it.";
        key Text => "Its newest key.";
        status Text => "`pending`, `approved`, `suspended` or `revoked`: what operators decided.";
        labels Json => "Its labels, set by operators or by a join token.";
        state Text => "Its attestation state.";
        standing Json "optional" => "What the state rests on.";
        first_seen_ms Time => "When it came first, or was approved before it came.";
        last_seen_ms Time => "When it connected or disconnected last.";
        address Text => "Where it connected from last, without the port.";
        software Text => "The software that it named last: a claim.";
        due_ms Time "optional" => "When it is challenged next.";
        due_kind Text "optional" => "The kind of that challenge.";
        last_challenge Text "optional" => "The challenge of its last verdict.";
        last_outcome Text "optional" => "What that ended in.";
        last_verdict_ms Time "optional" => "When that challenge was sent.";
    }
    miner_keys "A key of a miner." {
        key Text => "The key.";
        miner Text => "The miner.";
        position Integer => "Its place in the chain, from 0 on.";
        since_ms Time => "When it was seen first.";
    }
    sessions "A connection of a miner to a validator." {
        id Text => "The session.";
        miner Text => "The miner.";
        key Text => "The key that it connected with.";
        validator Text => "The validator's key.";
        instance Text => "The run of the validator's process.";
        address Text => "Where it connected from, without the port.";
        software Text => "The software that it named: a claim.";
        inventory Json => "What it said about its host: claims.";
        connected_ms Time => "When it began.";
        disconnected_ms Time "optional" => "When it ended.";
        why Text "optional" => "Why it ended.";
    }
    devices "A device that a miner lists or listed." {
        miner Text => "The miner.";
        device_id Text => "The device's id: a claim.";
        name Text => "The name that the miner gives it: a claim.";
        model Text => "The product name: a claim; empty where it is unknown.";
        memory_bytes Integer => "Its memory: a claim; 0 where it is unknown.";
        claims Json => "What else the miner says about it: claims.";
        first_seen_ms Time => "When the miner listed it first.";
        last_seen_ms Time => "When the miner listed it last.";
        gone_ms Time "optional" => "Since when the miner does not list it any more.";
        last_challenge Text "optional" => "The last challenge that it took part in.";
        last_pass_ms Time "optional" => "When the last challenge was sent whose work held.";
    }
    device_events "A change of a miner's devices." {
        id Text => "The event.";
        miner Text => "The miner.";
        device_id Text => "The device.";
        at_ms Time => "When.";
        what Text => "`seen`, `returned`, `gone`, `renamed`, or `elsewhere`: at another miner too.";
        other_miner Text "optional" => "The other miner.";
        session Text "optional" => "The session in which it was noticed.";
        detail Text => "The circumstances.";
    }
    rounds "A synchronised round." {
        id Text => "The round.";
        grp Text => "The group of the policy, or what else its members have in common.";
        asked Text => "`operator` or `schedule`.";
        validator Text => "The validator that began it.";
        begun_ms Time => "When its members were to start.";
        ended_ms Time "optional" => "When its last member was judged.";
        detail Text => "The circumstances.";
    }
    round_members "A miner in a round." {
        round Text => "The round.";
        miner Text => "The miner.";
        state Text => "`invited`, `started`, `late`, `declined`, `absent` or `judged`.";
        challenge Text "optional" => "Its challenge.";
        at_ms Time => "Since when it is in this state.";
        detail Text => "The circumstances.";
    }
    challenges "A challenge, from its beginning on." {
        id Text => "The challenge.";
        miner Text => "The miner.";
        key Text => "The key of its session.";
        validator Text => "The validator's key.";
        instance Text => "The run of the validator's process.";
        session Text => "The session.";
        grp Text => "The group of the policy.";
        kind Text => "The kind of challenge in the policy.";
        asked Text => "Why it was made: `schedule` or `operator`.";
        round Text "optional" => "The round it belongs to.";
        begun_ms Time => "When it began.";
        ended_ms Time "optional" => "When it was concluded.";
        device_ms Integer => "Measured time in ms, over all devices; 0 while it runs.";
    }
    commitments "What a miner signed in a challenge." {
        challenge Text => "The challenge.";
        checksum Text => "Over the roots of all passes.";
        signature Text => "Of the commitment, by the miner's key.";
        probe_checksum Text "optional" => "Over the digests of the probe.";
        probe_signature Text "optional" => "Of the probe answer, by the miner's key.";
    }
    verdicts "A verdict." {
        challenge Text => "The challenge.";
        miner Text => "The miner.";
        key Text => "The key that answered.";
        validator Text => "The key that asked.";
        at_ms Time => "When it was judged, by the validator's clock.";
        outcome Text => "`pass`, `fail` or `inconclusive`.";
        mode Text "optional" => "How the work was checked, where it came so far.";
        n Integer => "The matrix size.";
        iterations Integer => "Passes of each device.";
        iterations_checked Integer => "Passes of each device that were checked.";
        bytes_held Integer => "Memory shown, in bytes, over all devices.";
        tops Float => "2 · multiply-accumulates / seconds / 10¹², over all devices, measured.";
        seconds Float => "From the challenge out to the commitment in, measured.";
        probe_gb_per_s Float => "Bytes that the probe read / seconds / 10⁹, measured.";
        probe_seconds Float => "From the probe out to its answer in, measured.";
        operator Text => "The operator of the host, from its labels; empty where it has none.";
        document Json => "The verdict as `--json` prints it.";
        precision Integer => "The kind of work, by its number in docs/WORK.md.";
        ended Text "optional" => "`abandoned`, `not_reading` or `other`; empty where no positions were named.";
        log_index Integer "optional" => "Its index in the log of `validator`; empty until it is there.";
    }
    reasons "A reason behind an outcome." {
        challenge Text => "The challenge.";
        position Integer => "Its place in the verdict, from 0 on.";
        code Text => "The reason's code.";
        class Text => "The reason's class.";
        device_id Text "optional" => "The device, where one is meant.";
        detail Text => "The circumstances.";
        first_ms Time "optional" => "When that challenge was sent, in the first reason of a code; else empty.";
    }
    device_results "What a device showed in a challenge." {
        challenge Text => "The challenge.";
        device_id Text => "The device.";
        miner Text => "The miner.";
        model Text => "The name that the miner gives the device: a claim.";
        operator Text => "The operator of the host, from its labels; empty where it has none.";
        at_ms Time => "When the challenge was sent.";
        n Integer => "The matrix size.";
        work_held Flag => "Whether all work that was checked held.";
        matrices Integer => "Slots filled in the last pass.";
        bytes_held Integer => "Memory shown, in bytes.";
        tops Float => "2 · multiply-accumulates / seconds / 10¹², measured.";
        seconds Float => "From the challenge out to the commitment in, measured.";
        probe_bytes Integer => "Bytes that the probe read.";
        probe_gb_per_s Float => "Probe bytes / seconds / 10⁹, measured.";
        probe_seconds Float => "From the probe out to its answer in, measured.";
        hidden_share Float => "Its memory that may have been elsewhere; 1: no answer to a probe.";
        precision Integer => "The kind of work, by its number.";
    }
    telemetry "What a device's sensors showed in a challenge: claims." {
        challenge Text => "The challenge.";
        device_id Text => "The device.";
        samples Integer => "Number of readings.";
        document Json => "The summary, as in the verdict.";
    }
    evidence "The evidence of a challenge." {
        challenge Text => "The challenge.";
        digest Text => "Its name in the evidence store: BLAKE3 of it.";
        bytes Integer => "Its size.";
        stored_bytes Integer => "Its size as it is stored, compressed.";
        why Text => "Why it is kept.";
        at_ms Time => "When the challenge was sent.";
        dropped_ms Time "optional" => "When it was removed, by the limits of age and size.";
    }
    transitions "A change of a miner's attestation state." {
        id Text => "The change.";
        miner Text => "The miner.";
        at_ms Time => "When.";
        from_state Text => "The state before.";
        to_state Text => "The state after.";
        why Text => "The cause.";
        detail Text => "The circumstances.";
        challenge Text "optional" => "The challenge whose verdict led to it.";
    }
    findings "Something found about a miner that no single challenge shows." {
        id Text => "The finding.";
        miner Text => "The miner.";
        at_ms Time => "When.";
        code Text => "What was found.";
        other_miner Text "optional" => "The other miner, where two are concerned.";
        device_id Text "optional" => "The device, where one is meant.";
        detail Text => "The circumstances, with figures.";
        enforced Flag => "Whether it counted; else it is only recorded.";
        challenge Text "optional" => "The challenge with whose verdict it was recorded.";
    }
    receipts "A signed receipt." {
        id Text => "Its id, `jti`.";
        challenge Text => "The challenge.";
        miner Text => "The miner.";
        key_id Text => "The key that signed it, `kid`.";
        issued_ms Time => "`iat`.";
        expires_ms Time => "`exp`.";
        nonce Text "optional" => "`eat_nonce`: what a renter gave.";
        token Text => "The receipt.";
    }
    actions "What an operator did." {
        id Text => "The action.";
        at_ms Time => "When.";
        actor Text => "Who: the name of the user at the control socket.";
        uid Integer "optional" => "The number of that user.";
        action Text => "What.";
        miner Text "optional" => "The miner, where one is meant.";
        detail Text => "The circumstances.";
    }
    tokens "A join token that was given out. The token itself is nowhere." {
        hash Text => "BLAKE3 of the token.";
        labels Json => "The labels that it gives.";
        created_ms Time => "When it was made.";
        created_by Text => "By whom.";
        expires_ms Time => "Until when it can be used.";
        used_ms Time "optional" => "When it was used.";
        used_by Text "optional" => "The miner that used it.";
    }
    leases "What one of several validators holds, such as a miner." {
        subject Text => "What is held.";
        holder Text => "The run of the validator's process that holds it.";
        since_ms Time => "Since when, by the database's clock.";
        expires_ms Time => "Until when, by the database's clock.";
    }
    workers "A replay worker." {
        id Text => "The worker.";
        address Text => "Where it runs.";
        capacity Json => "What it can do, as it says.";
        heartbeat_ms Time => "When it was heard of last, by the database's clock.";
        expires_ms Time => "Until when it counts as alive, by the database's clock.";
        schema_version Integer => "The newest schema that its program knows.";
    }
    jobs "A replay for the workers." {
        id Text => "The job.";
        challenge Text => "The challenge.";
        submitted_by Text => "The run of the validator's process that waits for it.";
        submitted_ms Time => "When, by the database's clock.";
        expires_ms Time => "Until when somebody waits for it, by the database's clock.";
        needs_bytes Integer => "Memory that its largest share needs on one device, in bytes.";
        state Text => "`waiting`, `running`, `done` or `failed`.";
        attempts Integer => "How often it was given to a worker.";
        worker Text "optional" => "The worker that has it, or had it last.";
        lease_ms Time "optional" => "Until when that worker has it, by the database's clock.";
        ended_ms Time "optional" => "When it was done or handed back.";
        result Text "optional" => "What the worker found, or why it handed the job back.";
        document Bytes => "What is to be done.";
    }
    shown "What a device showed in a kind of work: what is remembered of it." {
        miner Text => "The miner.";
        device_id Text => "The device.";
        precision Integer => "The kind of work, by its number.";
        name Text => "The name that the miner gives the device: a claim.";
        bytes Integer => "The most bytes of slots that it had where the work held; 0: it never did.";
        macs_per_s Float => "Multiply-accumulates per second in the last challenge that it passed.";
        tops Float => "TOPS in that challenge.";
        probe_bytes_per_s Float => "Bytes per second that its probe read.";
        linked_bytes_per_s Float => "The same of the last linked probe; 0 where there was none.";
        at_ms Time => "When that challenge was sent.";
    }
    events "Something that happened, for programs that follow it. The oldest are removed." {
        seq Integer => "Its number: one more than that of the event before.";
        id Text => "Its id, which no other event of any store has.";
        at_ms Time => "When.";
        kind Text => "What happened: see [events](api.md#events).";
        miner Text "optional" => "The miner, where one is concerned.";
        challenge Text "optional" => "The challenge, where one is concerned.";
        document Json => "The circumstances.";
    }
    api_tokens "A token of the API. The token itself is nowhere." {
        id Text => "The token.";
        hash Text => "BLAKE3 of it.";
        role Text => "`read`, `operate` or `admin`.";
        name Text => "What its maker calls it.";
        created_ms Time => "When it was made.";
        created_by Text => "By whom.";
        expires_ms Time => "Until when it can be used.";
        revoked_ms Time "optional" => "When it was revoked.";
        last_used_ms Time "optional" => "When it was used last, to the minute.";
        parent Text "optional" => "The token that it was made with: it ends with that.";
    }
    webhooks "Who is sent events." {
        id Text => "The webhook.";
        target Text => "Where events go, without what may be secret.";
        url Bytes => "The whole URL.";
        secret Bytes => "What signs them.";
        kinds Json => "The kinds of events; none of them named: all.";
        created_ms Time => "When it was made.";
        created_by Text => "By whom.";
        disabled_ms Time "optional" => "Since when it is sent nothing any more.";
        disabled_why Text "optional" => "Why.";
    }
    deliveries "How far a webhook is." {
        webhook Text => "The webhook.";
        last_event Integer => "The last event that it has, or that is none of its kinds.";
        delivered Integer => "How many events it was sent.";
        delivered_ms Time "optional" => "When the last one.";
        skipped Integer => "How many events were removed before it could be sent them.";
        attempts Integer => "How many attempts failed since.";
        failing_ms Time "optional" => "Since when every attempt fails.";
        next_ms Time "optional" => "When the next attempt is made.";
        last_error Text "optional" => "Why the last attempt failed.";
    }
}
